"""Forms of English verbs: regular by rule, the frequent irregular ones by list."""

from dataclasses import dataclass
from functools import lru_cache

from tercet.models.english.words import third_person, word_set

# base past participle; the participle is left out where it is the past
_IRREGULAR_FORMS = """
arise arose arisen|awake awoke awoken|be was been|bear bore borne|beat beat beaten
become became become|begin began begun|bend bent|bet bet|bind bound|bite bit bitten|bleed bled
blow blew blown|break broke broken|breed bred|bring brought|broadcast broadcast|build built
burn burned|burst burst|buy bought|cast cast|catch caught|choose chose chosen|cling clung
come came come|cost cost|creep crept|cut cut|deal dealt|dig dug|do did done|draw drew drawn
drink drank drunk|drive drove driven|dwell dwelt|eat ate eaten|fall fell fallen|feed fed|feel felt
fight fought|find found|flee fled|fling flung|fly flew flown|forbid forbade forbidden
forecast forecast|foresee foresaw foreseen|foretell foretold|forget forgot forgotten
forgive forgave forgiven|forgo forwent forgone|freeze froze frozen|get got got|give gave given
go went gone|grind ground|grow grew grown|hang hung|have had|hear heard|hide hid hidden|hit hit
hold held|hurt hurt|keep kept|kneel knelt|know knew known|lay laid|lead led|leap leapt|leave left
lend lent|let let|lie lay lain|light lit|lose lost|make made|mean meant|meet met|mislead misled
mistake mistook mistaken|misunderstand misunderstood|outdo outdid outdone
overcome overcame overcome|override overrode overridden|oversee oversaw overseen
overtake overtook overtaken|partake partook partaken|pay paid|put put|quit quit|read read
rebuild rebuilt|regrow regrew regrown|remake remade|rerun reran rerun|resell resold|reset reset
retake retook retaken|retell retold|rethink rethought|rewrite rewrote rewritten|ride rode ridden
ring rang rung|rise rose risen|run ran run|say said|see saw seen|seek sought|sell sold|send sent
set set|shake shook shaken|shed shed|shine shone|shoot shot|show showed shown|shrink shrank shrunk
shut shut|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|sling slung|slit slit
speak spoke spoken|spend spent|spin spun|spit spat|split split|spread spread|spring sprang sprung
stand stood|steal stole stolen|stick stuck|sting stung|stink stank stunk|stride strode stridden
strike struck|string strung|strive strove striven|swear swore sworn|sweep swept|swim swam swum
swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
thrust thrust|tread trod trodden|undergo underwent undergone|understand understood
undertake undertook undertaken|undo undid undone|uphold upheld|upset upset|wake woke woken
wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn|withhold withheld
withstand withstood|wring wrung|write wrote written
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
    rests = [verb.removeprefix(prefix) for prefix in _PREFIXES if verb.startswith(prefix)]
    if rests:
        return any(_doubles(rest) for rest in rests if len(rest) >= 3)
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
    return _before_ending(verb) + "ed"


def _with_ing(verb: str) -> str:
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return _before_ending(verb) + "ing"


def _before_ending(verb: str) -> str:
    """ "stopp" of "stop", "mimick" of "mimic"."""
    if verb.endswith("ic"):
        return verb + "k"
    return verb + verb[-1] if _doubles(verb) else verb
