"""Forms of English verbs: regular by rule, the frequent irregular ones by list."""

from dataclasses import dataclass
from functools import lru_cache

from tercet.models.english.words import third_person, word_set

# base past participle; the participle is left out where it is the past
_IRREGULAR_FORMS = """
be was been|become became become|begin began begun|bend bent|bind bound|blow blew blown
break broke broken|bring brought|build built|burn burned|buy bought|catch caught
choose chose chosen|come came come|cost cost|cut cut|deal dealt|dig dug|do did done
draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed
feel felt|fight fought|find found|flee fled|fly flew flown|forbid forbade forbidden
forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got got|give gave given
go went gone|grow grew grown|hang hung|have had|hear heard|hide hid hidden|hit hit|hold held
hurt hurt|keep kept|know knew known|lay laid|lead led|leave left|lend lent|let let|lie lay lain
light lit|lose lost|make made|mean meant|meet met|outdo outdid outdone|overcome overcame overcome
pay paid|put put|quit quit|read read|rebuild rebuilt|ride rode ridden|ring rang rung
rise rose risen|run ran run|say said|see saw seen|seek sought|sell sold|send sent|set set
shake shook shaken|shine shone|shoot shot|show showed shown|shrink shrank shrunk|shut shut
sing sang sung|sink sank sunk|sit sat|sleep slept|speak spoke spoken|spend spent|split split
spread spread|stand stood|steal stole stolen|stick stuck|strike struck|swim swam swum
take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
understand understood|undergo underwent undergone|undo undid undone|wake woke woken
wear wore worn|win won|withdraw withdrew withdrawn|write wrote written|rewrite rewrote rewritten
"""
_DOUBLED = word_set(
    """admit begin commit compel control defer deter equip forbid forget infer omit occur
    patrol permit prefer rebel recur refer regret remap submit transfer transmit"""
)
# Before these prefixes' verbs the rest is inflected as it is alone: "unwrapping", "unbound".
_PREFIXES = ("un", "dis", "over", "under", "out")


def _irregular() -> dict[str, tuple[str, str]]:
    entries = [
        entry.split() for line in _IRREGULAR_FORMS.split("\n") for entry in line.split("|") if entry
    ]
    return {entry[0]: (entry[1], entry[-1]) for entry in entries}


IRREGULAR = _irregular()


@dataclass(frozen=True)
class Forms:
    """The five forms of a verb; of "carry out" the first word changes."""

    base: str
    third: str
    ing: str
    past: str
    participle: str


@lru_cache(maxsize=4096)
def forms_of(verb: str) -> Forms:
    """All forms of a verb, by its base."""
    head, space, rest = verb.partition(" ")
    past, participle = _pasts(head)
    tail = space + rest
    return Forms(
        verb, third_person(head) + tail, _with_ing(head) + tail, past + tail, participle + tail
    )


def _pasts(verb: str) -> tuple[str, str]:
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    for prefix in _PREFIXES:
        rest = verb.removeprefix(prefix)
        if rest != verb and rest in IRREGULAR:
            past, participle = IRREGULAR[rest]
            return prefix + past, prefix + participle
    return _with_ed(verb), _with_ed(verb)


def _doubles(verb: str) -> bool:
    if verb in _DOUBLED:
        return True
    for prefix in _PREFIXES:
        if verb.startswith(prefix) and len(verb) - len(prefix) >= 3:
            return _doubles(verb.removeprefix(prefix))
    vowels = [c in "aeiou" for c in verb]
    return (
        3 <= len(verb) <= 5
        and sum(vowels) == 1
        and vowels[-3:] == [False, True, False]
        and verb[-1] not in "wxy"
    )


def _with_ed(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return (verb + verb[-1] if _doubles(verb) else verb) + "ed"


def _with_ing(verb: str) -> str:
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return (verb + verb[-1] if _doubles(verb) else verb) + "ing"
