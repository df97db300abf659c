"""An OpenAI-compatible server that does what our prompts ask, by simple rules, and always the same.

It tells prompts apart by how our own prompt files begin, and reads what they carry: the sentence,
the old and the new, the record. What it knows of the world is `KINDS` and `REWORDED`; a sentence
outside of that is answered too, only less well.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from faulty_server import FaultyServer, Reply, Seen

from tercet.models.llm.wire import ANSWER
from tercet.models.prompted.templates import prompt_path

# Words by the type that `extract_generate` may give them.
KINDS = {
    "person": "baker doctor farmer gardener painter sailor teacher tailor",
    "food": "apple carrot cherry lemon onion pear potato turnip",
    "tool": "axe broom bucket hammer needle rake shovel spoon",
    "animal": "cat cow dog duck goat horse pig rabbit",
    "place": "Berlin Cairo Dublin Lima Madrid Oslo Quito Vienna",
}
TYPES = {word: kind for kind, words in KINDS.items() for word in words.split()}
UNITS = ("kilograms", "litres", "metres")
CATEGORIES = {"food": "food", "animal": "nature", "tool": "work", "person": "people"}
# Other words for the same, and what denies it.
REWORDED = {
    r"\bbought\b": "purchased",
    r"\bweighed\b": "had a weight of",
    r"\blikes\b": "is fond of",
    r"\bwas seen near\b": "could be spotted close to",
    r"\blent\b": "gave on loan",
}
DENIED = {
    r"\bbought\b": "did not buy",
    r"\bweighed\b": "did not weigh",
    r"\blikes\b": "dislikes",
    r"\bwas seen near\b": "was never near",
    r"\blent\b": "refused to lend",
}
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|must|may|might|has|have|had|does|do|did)\b"
    r"(?! not\b)"
)
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_WORD = re.compile(r"\b[A-Za-z]+\b")
_RECORDED = re.compile(r"^- (?P<text>.+?) \((?P<note>[^()]*)\)$|^- (?P<bare>.+)$")


@dataclass(frozen=True)
class Found:
    """What the server finds in a sentence: (text, type), and (number, unit, counted)."""

    entities: tuple[tuple[str, str], ...]
    quantities: tuple[tuple[str, str | None, str | None], ...]


def found(sentence: str) -> Found:
    """Entities and quantities by `KINDS` and `UNITS`, in the order of the sentence."""
    entities, quantities = [], []
    for match in _WORD.finditer(sentence):
        kind = TYPES.get(match[0]) or TYPES.get(singular(match[0]))
        if kind is not None:
            entities.append((match[0], kind))
    for match in _NUMBER.finditer(sentence):
        behind = sentence[match.end() :].split()
        following = behind[0].strip(".,") if behind else ""
        unit = following if following in UNITS else None
        counted = following if singular(following) in TYPES and unit is None else None
        quantities.append((match[0], unit, counted))
    return Found(tuple(entities), tuple(quantities))


def singular(word: str) -> str:
    """Good enough for `KINDS`."""
    for ending, with_ in (("toes", "to"), ("ies", "y"), ("s", "")):
        if word.endswith(ending):
            return word[: -len(ending)] + with_
    return word


# The prompts, by how they begin, and what the server answers. Each answer is made of what stands
# behind "NAME: " on the prompt's last lines.


def extract(said: Mapping[str, str], prompt: str) -> str:
    known = found(said["Sentence"])
    kinds = [CATEGORIES.get(kind, "geography") for _, kind in known.entities]
    answer = {
        "category": max(kinds, key=kinds.count) if kinds else "other",
        "entities": [{"text": text, "type": kind} for text, kind in known.entities],
        "quantities": [
            {"text": text, "value": float(text)}
            | ({"unit": unit} if unit else {})
            | ({"counts": counted} if counted else {})
            for text, unit, counted in known.quantities
        ],
    }
    return json.dumps(answer)


def rewrite(said: Mapping[str, str], prompt: str) -> str:
    return reworded(said["Sentence"])


def precede(said: Mapping[str, str], prompt: str) -> str:
    known = found(said["Sentence"]).entities
    about = f"the {known[0][0]}" if known else "the matter"
    return f"Much had been heard of {about} before."


def antisense(said: Mapping[str, str], prompt: str) -> str:
    return denied(said["Sentence"])


def entity_revision(said: Mapping[str, str], prompt: str) -> str:
    return revised(exchanged(said["Sentence"], said["Old"], said["New"]), prompt)


def quantity_revision(said: Mapping[str, str], prompt: str) -> str:
    return revised(exchanged(said["Sentence"], said["Old number"], said["New number"]), prompt)


def revised(sentence: str, prompt: str) -> str:
    """The changed sentence, in other words where the prompt asks for these (`edit: rewrite`)."""
    if "Rewrite the whole sentence" not in prompt:
        return sentence
    first = sentence[:1] if sentence.split(" ", 1)[0] in TYPES else sentence[:1].lower()
    return f"As people tell it, {first}{reworded(sentence)[1:]}"


def from_knowledge(said: Mapping[str, str], prompt: str) -> str:
    """The sentence in other words, with the record's entities and numbers for its own."""
    text = said["Sentence"]
    known = found(text)
    entities, numbers = recorded(prompt)
    own = list(dict.fromkeys(text for text, _ in known.entities))
    if len(own) == len(entities):
        for old, new in zip(own, entities, strict=True):
            text = exchanged(text, old, new) if old != new else text
    for (old, *_), new in zip(known.quantities, numbers, strict=False):
        text = exchanged(text, old, new) if old != new else text
    first = text[:1] if text.split(" ", 1)[0] in TYPES else text[:1].lower()
    return f"People say that {first}{reworded(text)[1:]}"


def question(said: Mapping[str, str], prompt: str) -> str:
    """A query of the kind asked for, from the passage's longest words."""
    words = sorted(set(_WORD.findall(said["Text"])), key=lambda word: (-len(word), word))[:3]
    if prompt.startswith("Write a search"):
        return " ".join(words)
    named = " and the ".join(words)
    if "short question" in prompt.partition("\n")[0]:
        return f"What is known of the {named}?"
    return f"Something is known of the {named}."


_ANSWERS: Mapping[str, Callable[[Mapping[str, str], str], str]] = {
    one.__name__: one
    for one in (
        *(extract, rewrite, precede, antisense, entity_revision, quantity_revision),
        *(from_knowledge, question),
    )
}


def recorded(prompt: str) -> tuple[list[str], list[str]]:
    """The record's entities and numbers, as a prompt of `from_knowledge` lists them."""
    lists: dict[str, list[str]] = {"Entities:": [], "Numbers:": []}
    current: list[str] = []
    for line in prompt.splitlines():
        current = lists.get(line.strip(), current)
        match = _RECORDED.match(line.strip())
        if match is not None:
            current.append(match["text"] or match["bare"])
    numbers = [_NUMBER.search(line) for line in lists["Numbers:"]]
    return lists["Entities:"], [one[0] for one in numbers if one is not None]


def reworded(sentence: str) -> str:
    """The same in other words, as far as `REWORDED` has them."""
    for pattern, with_ in REWORDED.items():
        sentence = re.sub(pattern, with_, sentence)
    return sentence


def denied(sentence: str) -> str:
    """The contrary: of an auxiliary's sentence by "not", of another by an opening."""
    for pattern, with_ in DENIED.items():
        if re.search(pattern, sentence):
            return re.sub(pattern, with_, sentence, count=1)
    if _AUXILIARY.search(sentence):
        return _AUXILIARY.sub(r"\1 not", sentence, count=1)
    return f"It is false that {sentence[:1].lower()}{sentence[1:]}"


def exchanged(sentence: str, old: str, new: str) -> str:
    """The new wherever the old stands as whole words, with the article that it takes."""

    def one(match: re.Match[str]) -> str:
        article = match["article"]
        if article is None:
            return new
        vowel = new[:1].lower() in "aeiou"
        fitting = {"a": "an" if vowel else "a", "an": "an" if vowel else "a"}[article.lower()]
        return f"{fitting.capitalize() if article[0].isupper() else fitting} {new}"

    pattern = rf"(?:\b(?P<article>[Aa]n?) )?(?<![\w.]){re.escape(old)}(?![\w])"
    return re.sub(pattern, one, sentence)


@dataclass
class Obeying:
    """What the server does. asked: names of prompt files, in the order of the requests."""

    asked: list[str] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Reply:
        texts = [self.answer(prompt) for prompt in seen.prompts]
        chat = seen.path.partition("?")[0].endswith("/chat/completions")
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(texts):
            one: dict[str, Any] = {"index": index, "finish_reason": "stop"}
            one |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            choices.append(one)
        usage = {
            "prompt_tokens": sum(len(prompt.split()) for prompt in seen.prompts),
            "completion_tokens": sum(1 + len(text.split()) for text in texts),
        }
        return Reply(200, json.dumps({"choices": choices, "usage": usage}).encode())

    def answer(self, prompt: str) -> str:
        """Raises ValueError for a prompt that is none of ours."""
        prompt = prompt.removesuffix(ANSWER).rstrip()
        name = named(prompt)
        lines = (line.partition(": ") for line in prompt.splitlines())
        self.asked.append(name)
        return _ANSWERS[name]({key: value for key, colon, value in lines if colon}, prompt)


def named(prompt: str) -> str:
    """The prompt file that a prompt was rendered from."""
    for name in _ANSWERS:
        lines = prompt_path(name).read_text().splitlines()
        # Queries of each kind have an opening of their own.
        begins = [line for line in lines if line.startswith("Write")] or lines[:1]
        if any(prompt.startswith(one.partition(".")[0].partition("{{")[0]) for one in begins):
            return name
    raise ValueError(f"no prompt of ours begins like {prompt[:60]!r}")


@contextmanager
def obeying_server() -> Iterator[tuple[FaultyServer, Obeying]]:
    """The server on a port of this machine, and what it is asked."""
    obeying = Obeying()
    with FaultyServer(obeying) as server:
        yield server, obeying
