"""Closed word classes: the words that never stand for an entity, and those that join or count."""

from tercet.models.english.words import word_set

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
