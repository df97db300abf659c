"""English words: letter case, closed classes, plurals, forms of verbs, articles, narrow kinds."""

import re
from dataclasses import dataclass
from functools import lru_cache

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_WITH_ES = frozenset(("do", "go", "undo", "redo", "outdo", "overdo", "forgo", "undergo"))


def word_set(text: str) -> frozenset[str]:
    """The words of a text, split at white space."""
    return frozenset(text.split())


def with_s(word: str) -> str:
    """The word with the ending -s, as a plural or a third person has it."""
    lower = word.lower()
    if lower in _WITH_ES or lower.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if lower.endswith("y") and len(lower) > 1 and lower[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def third_person(verb: str) -> str:
    """A verb's third person singular ("apply" to "applies")."""
    return {"have": "has", "be": "is"}.get(verb) or with_s(verb)


def in_shape_of(old: str, new: str) -> str:
    """`new` in the letter case of `old`: all capitals, a capital on each word, a capital on the
    first, or as it is."""
    if not old or not new:
        return new
    if len(old) > 1 and old.isupper():
        return new.upper()
    heads = [word[:1] for word in old.split()]
    if len(heads) > 1 and all(head.isupper() for head in heads):
        return " ".join([word[:1].upper() + word[1:] for word in new.split(" ")])
    if old[0].isupper():
        return new[0].upper() + new[1:]
    return new


def capitalised(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


# Closed classes: the words that never stand for an entity, and those that join or count.
_DETERMINERS = """a an the this that these those each every either neither both all half some any no
none another other others such what which whose same own several many much more most few fewer
fewest less least little enough lot lots plenty"""
_PRONOUNS = """i me my mine myself we us our ours ourselves you your yours yourself yourselves he
him his himself she her hers herself it its itself they them their theirs themselves one ones
oneself who whom whoever whatever whichever someone somebody something anyone anybody anything
everyone everybody everything nobody nothing there here"""
_PREPOSITIONS = """about above across after against along alongside amid among amongst around as at
atop before behind below beneath beside besides between beyond by concerning considering despite
down during except excluding for from in including inside into like minus near of off on onto out
outside over past per plus regarding since than through throughout till to toward towards under
underneath unlike until unto up upon versus via vs with within without"""
_CONJUNCTIONS = """and or but nor so yet if unless because although though while whereas whether
when whenever where wherever why how once lest"""
_AUXILIARIES = """am is are was were be been being do does did done doing have has had having can
could may might must shall should will would ought cannot let lets get gets got gotten"""
_ADVERBS = """not never ever always often sometimes usually rarely seldom now then today tomorrow
yesterday tonight soon later earlier already still just only also too very quite rather almost even
again away back forth together apart else otherwise instead however therefore thus hence moreover
furthermore meanwhile nevertheless nonetheless perhaps maybe yes no ok okay please well far ahead
forward forwards backward backwards aside abroad likewise first last next second third fourth fifth
sixth seventh eighth ninth tenth twice once thrice anyway indeed namely etc ie eg cf al due"""
_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
hundred thousand million billion trillion dozen hundreds thousands millions billions dozens"""
_WEAK = """use uses used using make makes made making take takes took taken taking give
gives gave given giving go goes went gone going come comes came coming see sees saw seen seeing
know knows knew known say says said become becomes became set sets put puts keep keeps kept left
let return returns returned want wants need needs new old main general"""

STOP_WORDS = frozenset(
    " ".join(
        [
            _DETERMINERS,
            _PRONOUNS,
            _PREPOSITIONS,
            _CONJUNCTIONS,
            _AUXILIARIES,
            _ADVERBS,
            _NUMBERS,
        ]
    ).split()
)
NUMBER_WORDS = frozenset(_NUMBERS.split())
# Words of other classes that dictionaries also list as nouns: never an entity alone, though they
# may begin or end a phrase or a name ("New York").
WEAK_WORDS = frozenset(_WEAK.split())
# After one of these a bare word is a verb: "will play", "they return", "not play".
BEFORE_VERBS = word_set(
    """i we you he she they who can could may might must shall should will would cannot not
    don't doesn't didn't can't couldn't won't wouldn't shouldn't mustn't"""
)
# Words that may join the capitalised words of one name, and never begin or end it.
NAME_LINKS = word_set("of de la le du da di del der den van von al el bin ibn")
# A full stop after one of these does not end the name: "St. Louis".
TITLES = word_set("st dr mr mrs ms mt jr sr prof gen col lt sgt capt rev")
# Determiners that may stand between "of" and the noun that is counted: "three of the dogs".
AFTER_OF = word_set("the all its their his her our my your these those them")


# Verbs that open sentences of documentation.
# Regular ones whose third person and past are rarely a noun or a name.
PLAIN_VERBS = word_set(
    """accept allow apply appear assign assume attend avoid belong calculate call cause compute
consist construct contain convert correspond create define delete depend describe determine die
divide enable ensure estimate evaluate exist expect express fail generate happen ignore implement
include increase indicate inherit initialize insert involve live load marry modify move need obtain
occur open operate perform prevent produce provide raise receive refer reflect release remain remove
replace represent require retain retire return retrieve save serve specify start store suggest
support transform try update use verify wrap yield"""
)
DOCUMENTATION_VERBS = PLAIN_VERBS | word_set(
    """add append build check compare copy count draw find fill fit format handle invert iterate
    join list log map merge normalize parse pass plot print reset resolve reshape round sample
    sort split stack sum switch test validate wait write"""
)
# Others that no person's or thing's name begins with.
_MORE_OPENERS = word_set(
    """see make get set give take put run send choose keep let show bind read bring break do
    have be become begin hold know leave tell consider note construct aggregate allocate alter
    annotate assert associate attach bootstrap bypass cast change clip close collect combine
    compile complete compress concatenate configure conform connect decode detect disable
    display download dump embed emit encode execute export extend extract fetch flatten follow
    group import infer install instantiate integrate intercept invoke launch manage migrate
    minimize maximize override process promote propagate query rank recover reduce register
    rename render report request restore reuse rewrite scale search select serialize simplify
    simulate skip solve stop submit subtract toggle tokenize track train translate trigger
    truncate unpack upload visualize warn"""
)


# Casefolded words that may open a sentence but never a proper name.
OPENERS = frozenset(
    form for verb in DOCUMENTATION_VERBS | _MORE_OPENERS for form in (verb, third_person(verb))
)


# Nouns and verbs are inflected by rule, the frequent irregular ones by list.
# singular plural
_IRREGULAR = """
man men|woman women|child children|person people|foot feet|tooth teeth|goose geese|mouse mice
louse lice|ox oxen|index indices|matrix matrices|vertex vertices|appendix appendices|axis axes
analysis analyses|basis bases|crisis crises|thesis theses|hypothesis hypotheses
parenthesis parentheses|criterion criteria|phenomenon phenomena|bacterium bacteria|medium media
spectrum spectra|maximum maxima|minimum minima|corpus corpora|nucleus nuclei|radius radii
alumnus alumni|stimulus stimuli|formula formulae|larva larvae|leaf leaves|loaf loaves|half halves
calf calves|thief thieves|shelf shelves|wolf wolves|elf elves|self selves|knife knives|life lives
wife wives|quiz quizzes|hero heroes|potato potatoes|tomato tomatoes|echo echoes|bus buses|gas gases
lens lenses|status statuses|virus viruses|campus campuses|stomach stomachs|epoch epochs
monarch monarchs|patriarch patriarchs|matriarch matriarchs|eunuch eunuchs|loch lochs|tech techs
"""
# Whose plural in -s is as good, and is the one that we write.
_ALSO_REGULAR = word_set("formula medium maximum minimum")
_SAME_IN_BOTH = word_set(
    "sheep fish deer series species aircraft spacecraft data news police cattle people staff crew"
)
# The last two are collective nouns, which have a regular plural too.
_INVARIANT = _SAME_IN_BOTH - word_set("staff crew")
# Nouns that end in one of these have its plural.
_HEADS = ("woman", "man", "child", "wife", "shelf", "tooth", "foot", "goose", "mouse", "wolf")
_NO_PLURALS = word_set(
    """abdomen acumen albumen bitumen bremen cyclamen dolmen hymen lumen omen pumice ramen regimen
    semen specimen stamen yemen"""
)
_NOT_OF_HEADS = word_set(
    """afoot barefoot bigfoot bluetooth german human mongoose norman ottoman roman sawtooth shaman
    talisman"""
)


def _pairs() -> list[tuple[str, str]]:
    entries = [entry.split() for line in _IRREGULAR.split("\n") for entry in line.split("|")]
    return [(entry[0], entry[1]) for entry in entries if entry]


_SINGULARS = {many: one for one, many in _pairs()}
_PLURALS = {one: many for one, many in _pairs() if one not in _ALSO_REGULAR}


def plural(text: str) -> str:
    """The plural of a noun, or of the last word of a noun phrase; of a plural the same text."""
    head, space, word = text.rpartition(" ")
    lower = word.lower()
    if lower in _INVARIANT or _irregular_singular(lower) or not word:
        return text
    if lower in _PLURALS:
        return head + space + in_shape_of(word, _PLURALS[lower])
    for suffix in _HEADS:
        if lower.endswith(suffix) and lower not in _NOT_OF_HEADS:
            return head + space + word[: -len(suffix)] + _PLURALS[suffix]
    if lower.endswith(("gnosis", "phasis", "thesis", "lysis", "crisis")):
        return head + space + word[:-2] + "es"
    return text if _ends_as_plural(lower) else head + space + with_s(word)


def is_plural(text: str, lemma: str | None = None) -> bool:
    """Whether a noun phrase is in the plural, as written; its lemma decides where it is known."""
    folded = text.casefold()
    if lemma is not None:
        own = lemma.casefold()
        return folded != own and folded == plural(own)
    last = folded.rpartition(" ")[2]
    return bool(_irregular_singular(last)) or (len(last) > 3 and _ends_as_plural(last))


def may_be_plural(word: str) -> bool:
    """Whether the casefolded word can be read as a plural noun, "sheep" and "firemen" included."""
    return (
        word in _SAME_IN_BOTH
        or bool(_irregular_singular(word))
        or (len(word) > 3 and _ends_as_plural(word))
    )


@lru_cache(maxsize=1 << 16)
def singulars(word: str) -> tuple[str, ...]:
    """Forms that the casefolded word may be the plural of, likeliest first; () for none."""
    if irregular := _irregular_singular(word):
        return (irregular,)
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return ()
    if word.endswith("ies"):
        return (word[:-3] + "y", word[:-1])
    if word.endswith(("ches", "shes", "xes", "sses", "zes", "oes")):
        return (word[:-2], word[:-1])
    if word.endswith("ses"):
        return (word[:-1], word[:-2])
    if word.endswith("ves"):
        return (word[:-1], word[:-3] + "f", word[:-3] + "fe")
    return () if word.endswith(("us", "is")) else (word[:-1],)


def _irregular_singular(word: str) -> str:
    """ "child" of "children", "grandchild" of "grandchildren"; "" of any other word."""
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word not in _NO_PLURALS:
        for one in _HEADS:
            many = _PLURALS[one]
            if len(word) > len(many) + 1 and word.endswith(many):
                return word[: -len(many)] + one
    return ""


def _ends_as_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))


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


_ARTICLE = re.compile(r"\b([Aa])(n?)(\s+[\"'“‘(`]?)$")
# Written with a vowel but pronounced with a consonant, and the reverse.
_AS_CONSONANT = re.compile(
    r"eu|ewe|once|one(?![a-z])|u(?:ni(?!m|n|dent|ss)|s[aeiu]|t[aeio]|k|bi|r[aei])"
)
_SILENT_H = re.compile(r"h(?:our|onest|ono[u]?r|eir)")
_LETTERS_WITH_VOWEL = frozenset("AEFHILMNORSX")
_NUMBERS_WITH_VOWEL = re.compile(r"8|1[18](?:\d{2,3})?(?!\d)|1[18],\d")


def wants_an(text: str) -> bool:
    """Whether the indefinite article before this text is "an", by its first sound."""
    word = text.lstrip("\"'“‘(`")
    head = re.match(r"\w+", word)
    if head is None:
        return False
    first = head.group()
    if first[0].isdigit():
        return _NUMBERS_WITH_VOWEL.match(word) is not None
    if len(first) == 1:
        return first.upper() in _LETTERS_WITH_VOWEL
    if first.isupper():
        # "NASA" is pronounced as a word, "NSF" letter by letter.
        return first[0] in _LETTERS_WITH_VOWEL and (first[0] in "AEIO" or first[1] not in "AEIOU")
    lower = first.lower()
    if lower[0] == "h":
        return _SILENT_H.match(lower) is not None
    return lower[0] in "aeiou" and _AS_CONSONANT.match(lower) is None


def replaced(text: str, start: int, end: int, new: str, english: bool = True) -> str:
    """The text with `text[start:end]` replaced, and an English article before it corrected."""
    before = text[:start]
    if english and new and before[-1:] in " \t(`\"'“‘":
        article = _ARTICLE.search(before)
        # A single capital A may be a name ("vitamin A"), unless a sentence begins with it.
        if article and (article.group(1) == "a" or article.start() == 0):
            n = "n" if wants_an(new) else ""
            before = before[: article.start()] + article.group(1) + n + article.group(3)
    return before + new + text[end:]


# Any noun of a kind can stand in another's place, and only the fact changes: a month for a month.
# A word that is as often something else, such as "spring", is in none.
_KINDS = """
January February March April May June July August September October November December | Monday
Tuesday Wednesday Thursday Friday Saturday Sunday | summer autumn winter | morning
afternoon evening | week month year | decade century | north south east west | Africa America Asia
Australia Europe | Brazil Canada China Egypt England France Germany India Italy Japan Russia Spain
Poland Austria Sweden Norway Denmark Finland Iceland Ireland Scotland Portugal Greece Hungary
Belgium Switzerland Mexico Chile Bolivia Peru Argentina Colombia Venezuela Kenya Nigeria Ghana
Ethiopia Morocco Algeria Iran Iraq Pakistan Bangladesh Indonesia Malaysia Thailand Vietnam Cuba
Estonia Latvia Lithuania Ukraine Romania Bulgaria Albania Croatia Serbia Mongolia Nepal Senegal
Mali Tanzania Uganda | Berlin London Paris Rome Tokyo Vienna Madrid Lisbon Athens Moscow Prague
Budapest Warsaw Dublin Oslo Stockholm Copenhagen Helsinki Amsterdam Rotterdam Antwerp Brussels
Hamburg Munich Kraków Naples Venice Genoa Milan Florence Istanbul Cairo Nairobi Lagos Dakar Mumbai
Delhi Sydney Chicago Boston Swansea Bristol Liverpool Manchester Glasgow Edinburgh Belfast Cardiff
Marseille Seville Porto | French German Greek Latin Spanish Italian Portuguese Russian Swedish
Danish Polish Turkish Arabic | town village city | county province | cathedral
church mosque temple monastery | castle palace | bakery bookshop restaurant hotel | kitchen
bathroom bedroom garage | roof floor ceiling | sofa cupboard wardrobe | ferry yacht
canoe | car bus truck taxi van tractor | train tram | airplane helicopter | dog cat horse goat cow
pig rabbit bear wolf fox lion tiger leopard elephant giraffe zebra camel ape | eagle owl duck
goose parrot pigeon crow swan | salmon tuna | ant bee beetle mosquito butterfly spider | whale
dolphin shark octopus | apple banana pear orange peach cherry strawberry lemon | potato tomato
onion carrot cabbage cucumber | tea coffee beer wine milk | beef pork bacon ham | breakfast lunch
dinner | wheat rice barley | salt sugar | gold silver copper iron tin zinc bronze | hydrogen
oxygen nitrogen helium | cotton silk wool leather | birch maple oak | lily tulip daisy | axe
hammer knife shovel | coat jacket dress skirt shirt sweater scarf | ankle elbow knee shoulder
wrist hip | liver lung kidney stomach | asthma malaria tuberculosis influenza pneumonia diabetes |
football basketball baseball hockey tennis golf rugby volleyball | physics chemistry
biology mathematics astronomy geology economics | Buddhism Christianity Islam | rain snow | flood
drought earthquake hurricane | novel poem biography | brother father uncle grandfather |
sister mother aunt grandmother | king emperor prince | queen princess | baker butcher
carpenter tailor gardener plumber electrician fisherman farmer | pianist drummer guitarist singer
violinist | astronomer biologist chemist physicist mathematician historian economist philosopher |
doctor lawyer engineer teacher dentist architect pharmacist journalist | mayor governor senator
ambassador bishop | orchestra choir | army navy | row column | minimum maximum | mean median |
list tuple | superclass subclass | encoder
decoder | prefix suffix | client server | warning error | classifier regressor | width height |
numerator denominator | triangle rectangle circle | eigenvalue eigenvector | museum theater cinema
"""
_BY_LEMMA: dict[str, set[str]] = {}
for _kind in _KINDS.split("|"):
    for _word in _kind.split():
        _BY_LEMMA.setdefault(_word, set()).update(_kind.split())


def of_one_kind(one: str, other: str) -> bool:
    """Whether two different nouns, as dictionaries have them, are of one kind."""
    return one != other and other in _BY_LEMMA.get(one, ())


def has_kind(noun: str) -> bool:
    """Whether a noun has others of its kind."""
    return noun in _BY_LEMMA
