"""Which mentions can be swapped: surely nouns, heads of their phrases, and not parts of a term."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.english.context import (
    BOUNDARY,
    DETERMINERS,
    PREPOSITIONS,
    Around,
    around,
    is_noun,
    is_number,
)
from tercet.models.english.words import OPENERS, STOP_WORDS, has_kind, is_plural, word_set

# Half of an idiom more often than a thing: "a bit", "in terms of", "take part".
_IDIOMATIC = word_set(
    """bit lot couple way case fact kind sort type example addition result order place time part
    hand matter means question rule course point term basis degree extent number amount series
    group set range variety majority minority rest piece form level side end start turn line sense
    mind chance step top bottom front back head heart eye face foot view rate name half pair host
    string score figure note copy sample sum total present past future world share stage scene
    feature record issue state power force light interest practice account board body mouth"""
)
# Named by what happens to something ("the application of"): as often a deed as a thing.
_DEEDS = ("tion", "sion", "ment", "ing", "al", "ure", "sis", "use", "age", "ance", "ence")
# What has no plural and takes no "a".
_MASS = word_set(
    """data information software hardware memory code music water air blood money research evidence
    equipment furniture traffic weather knowledge advice progress news luck rice sugar salt sand
    gold silver copper iron steel oil gas bread butter milk cheese meat beef pork flour wine coffee
    tea wood wool cotton leather glass plastic paper concrete cement soil mud dust smoke steam ice
    snow rain hydrogen oxygen nitrogen carbon helium energy electricity heat love hate anger fear
    joy sorrow grief pride shame guilt courage happiness sadness patience health wealth poverty
    education literature poetry philosophy physics chemistry biology mathematics economics history
    geography grammar documentation metadata recursion inheritance syntax regression clustering
    caching logging parsing training testing learning tennis football golf chess hockey baseball
    basketball rugby boxing cycling swimming lightning thunder clothing jewelry transport tourism
    agriculture fishing north south east west audio video infrastructure storage bandwidth
    throughput feedback gravity intelligence harm health help homework housework humour humor
    nonsense pollution poetry violence wildlife warfare stuff flesh hair skin blood acting makeup
    police cattle people staff garlic corn wheat barley pasta soup chocolate"""
)
_MASS_ENDS = ("ness", "ism", "ance", "ence", "ity", "ics", "ship", "cy", "osis", "itis", "emia")
_COUNTED = word_set(
    """city entity university community activity facility quantity probability similarity property
    density identity utility velocity intensity frequency currency agency policy pharmacy distance
    instance sequence sentence difference reference conference appearance performance alliance
    preference occurrence experience audience residence substance ambulance insurance relationship
    friendship championship scholarship mechanism organism prism witness business illness sickness
    metric topic clinic critic dependency tendency emergency celebrity ability disability security
    personality authority minority majority quality deity cavity inequality"""
)
# "The author of the book" is somebody, "the end of the book" is a part of it.
_WHOLE_TYPES = frozenset(("person", "animal", "plant", "illness", "food"))
_BARE_TYPES = frozenset(("substance", "food", "illness"))
# "Two years" says how long, and no other word does; "a year of" the same.
_MEASURES = frozenset(("time", "money", "attribute"))
_NEXT_TO = re.compile(r"(?:(\S+)\s+)?[\"“‘'`(\[]?$")
_BEHIND = re.compile(r"[\"”’'`]?\s+(\S+)")
_TIED_BEFORE = frozenset("-/_.=@#~<$\\'’+*:&")
_TIED_AFTER = frozenset("-/_=(@~<>\\+*^[&'’")
# What a name from code is often called behind it.
_CODE = word_set(
    """object objects function functions method methods class classes instance instances attribute
    parameter argument arguments module array arrays type estimator decorator dtype column"""
)
_ACRONYM = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9]+s?")
# What a proper name names, by a word of it.
_CLASSES = word_set(
    """University College School Institute Academy River Lake Sea Ocean Bay Gulf Strait Canal
    Harbour Island Islands Mountain Mountains Mount Valley Hill Hills Desert Peninsula Cape County
    City Province District State Kingdom Republic Park Region Street Road Avenue Boulevard Square
    Bridge Church Cathedral Castle Palace Museum Theatre Theater Hospital Hotel Temple Party
    Company Corporation Society Association Council Committee Club Union War Battle Cup
    Championship Championships Festival Olympics Revolution Falls Beach Station Award
    Awards Prize Medal"""
)
_GIVEN_NAMES = word_set(
    """James John Robert Michael William David Richard Joseph Thomas Charles Christopher Daniel
    Matthew Anthony Mark Donald Steven Paul Andrew Joshua Kenneth Kevin Brian George Edward Ronald
    Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan Stephen Larry Justin Scott Brandon
    Benjamin Samuel Gregory Frank Alexander Raymond Patrick Jack Dennis Jerry Tyler Aaron Jose Adam
    Henry Nathan Douglas Zachary Peter Kyle Walter Ethan Jeremy Harold Keith Christian Roger Noah
    Gerald Carl Terry Sean Arthur Lawrence Jesse Bryan Billy Bruce Albert Willie Gabriel Alan Louis
    Philip Martin Simon Fred Hans Karl Friedrich Wilhelm Ludwig Johann Franz Otto Max Pierre Jean
    Jacques Antonio Carlos Juan Luis Pedro Ivan Vladimir Boris Mary Patricia Jennifer Linda
    Elizabeth Barbara Susan Jessica Sarah Karen Nancy Lisa Margaret Betty Sandra Ashley Dorothy
    Kimberly Emily Donna Michelle Carol Amanda Melissa Deborah Stephanie Rebecca Laura Sharon
    Cynthia Kathleen Amy Angela Shirley Anna Brenda Pamela Emma Nicole Helen Samantha Katherine
    Christine Rachel Carolyn Janet Catherine Maria Heather Diane Ruth Julie Olivia Joyce Virginia
    Victoria Kelly Lauren Christina Joan Evelyn Judith Megan Andrea Cheryl Hannah Jacqueline Martha
    Gloria Teresa Ann Sara Madison Frances Kathryn Janice Jean Alice Julia Judy Sophia Grace Rose
    Theresa Beverly Denise Marilyn Amber Danielle Brittany Diana Jane Charlotte Marie"""
)


def name_class(name: str) -> str:
    """What a proper name names, by one of its words; "" where none tells."""
    words = name.split(" ")
    # "Secretary of State" is no state.
    for word in (words[0],) if "of" in words else (words[-1], words[0]):
        if word in _CLASSES:
            return word.removesuffix("s").casefold()
    return "person" if len(words) > 1 and words[0] in _GIVEN_NAMES else ""


def is_mass(noun: str) -> bool:
    """Whether a noun's last word has no plural and takes no indefinite article."""
    last = noun.rpartition(" ")[2].casefold()
    return last in _MASS or (last.endswith(_MASS_ENDS) and last not in _COUNTED)


def takes_count_noun(text: str, start: int, end: int, lemma: str | None) -> bool:
    """Whether a noun that has no plural would be wrong in the place of text[start:end]."""
    before = text[max(0, start - 12) : start].casefold().split()
    last = before[-1].lstrip("([\"'“‘`") if before else ""
    return last in ("a", "an", "each", "every", "one", "another") or is_plural(
        text[start:end], lemma
    )


def swappable(
    texts: Sequence[str], mentions: pa.Table, lemmas: Sequence[str | None]
) -> npt.NDArray[np.bool_]:
    """Which of the mentions of entities (row, text, type, start, end) can be swapped.

    lemmas: their entities' texts. A mention fails where a neighbour does not decide that it is a
    noun and the head of its phrase, inside a hyphened word or a longer name, in an idiom, and where
    it measures something.
    """
    columns = (mentions[name].to_pylist() for name in ("row", "type", "start", "end"))
    fits = [
        _fits(texts[row], start, end, kind, lemma)
        for row, kind, start, end, lemma in zip(*columns, lemmas, strict=True)
    ]
    return np.array(fits, dtype=np.bool_)


def _fits(text: str, start: int, end: int, kind: str, lemma: str | None) -> bool:
    if (text[start - 1 : start] in _TIED_BEFORE and start) or text[end : end + 1] in _TIED_AFTER:
        return False
    if text[end : end + 1] == "." and text[end + 1 : end + 2].isalnum():
        return False
    said = text[start:end]
    here = around(text, start, end)
    if said.isupper() and len(said) > 1 and has_kind(said.lower()):
        return False  # "FLOAT" is the name of a type
    if kind == "identifier":
        return not is_number(here.before) and (here.head or here.after in _CODE)
    if kind == "time" and said[0].isupper() and not has_kind(said):
        return False
    if kind == "name" or (said[0].isupper() and not here.opens):
        is_common = lemma is not None and lemma == lemma.lower()
        return _is_whole_name(text, start, end, kind, here, is_common)
    if said != said.lower() and not here.opens:
        return False
    if said == "row" and (here.earlier, here.before) == ("in", "a"):
        return False
    many = is_plural(said, lemma)
    folded = said.casefold()
    if folded in _IDIOMATIC or (lemma or "").casefold() in _IDIOMATIC:
        return False
    if kind in _MEASURES and (is_number(here.before) or here.before in PREPOSITIONS):
        return False
    if here.after == "of" and " " not in said and kind not in _WHOLE_TYPES:
        return False
    if " " not in said and folded.endswith(_DEEDS) and kind in ("code", "system", "tool"):
        return False
    if is_noun(here, many):
        return True
    if not here.head or here.after in _TIED_AFTER:
        return False
    bare = many or kind in _BARE_TYPES
    if here.before in PREPOSITIONS:
        return bare and here.before not in ("to", "as", "like", "by", "at", "on")
    if here.before in ("and", "or"):
        return many and here.after in (BOUNDARY, "are", "were", "can", "will")
    return many and here.before in OPENERS and here.before.endswith("s")


def _is_whole_name(
    text: str, start: int, end: int, kind: str, here: Around, is_common: bool
) -> bool:
    """Whether a name stands alone, not inside a longer one, and is of a class that is known."""
    said = text[start:end]
    before = _NEXT_TO.search(text, max(0, start - 30), start)
    last = before.group(1) if before is not None and before.group(1) else ""
    if last[:1].isupper() and last.casefold() not in STOP_WORDS:
        return False
    if last.casefold().strip(".,") in ("mr", "mrs", "ms", "dr", "st", "von", "van", "de", "sir"):
        return False
    behind = _BEHIND.match(text, end)
    if behind is not None and (behind.group(1)[0].isupper() or behind.group(1)[0].isdigit()):
        return False
    if here.before == "of" and here.earlier not in DETERMINERS and kind == "name":
        return False
    if _ACRONYM.fullmatch(said.replace(".", "")):
        return text[start - 1 : start] != "(" and not is_number(here.before) and here.head
    if has_kind(said):
        return here.head and here.before not in ("the", "and", "or", "of") and here.after != "and"
    if kind == "name":
        return name_class(said) != "" and here.after not in ("of", "and", "'s")
    return here.head and not is_common and here.before not in ("the", "and", "or")
