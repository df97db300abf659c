"""Verbs that open sentences of documentation, in the base form or the third person."""

from tercet.models.english.words import third_person, word_set

# Regular verbs whose third person and past are rarely a noun or a name.
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
_MORE = word_set(
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
    form for verb in DOCUMENTATION_VERBS | _MORE for form in (verb, third_person(verb))
)
