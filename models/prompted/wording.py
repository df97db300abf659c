"""Patterns of refusals, preambles, remarks and markup in language models' answers.

Regular expressions (RE2) for trimmed texts, used without regard to case. A match does not count if
the source matches too.
"""

import re

_SORRY = (
    r"(?:i(?:['’]m| am)(?: very| so| really| truly)? (?:sorry|afraid)|sorry|(?:my )?apologies"
    r"|i apologi[sz]e|unfortunately|regrettably)[,.:;!—– -]+"
)
_MACHINE = (
    r"as an? (?:ai|artificial intelligence|(?:ai |large )?language model|chatbot)"
    r"(?: language)?(?: model| assistant| system)?,? (?:i|my|we|it)\b"
)
_CANNOT = (
    r"i(?:(?:['’]m| am) (?:unable|not able)(?: to)?|['’]ll have to decline(?: to)?"
    r"| (?:can(?:not| not|['’]t)|could not|couldn['’]t|will not|won['’]t|must decline(?: to)?))"
)
# Only tasks of a model: "I couldn't complete that marathon" is not a refusal.
_SERVE = (
    r" (?:(?:assist|help (?:you|with)|fulfil|fulfill|comply|provide|re-?write|rephrase|paraphrase"
    r"|generate|write (?:that|this|the|an?|such|about)|respond|engage in|contradict"
    r"|(?:create|produce) (?:that|this|such|content)"
    r"|do (?:that|this|so)|(?:see|find|identify) (?:the|any|a) (?:sentence|text))\b"
    r"|(?:answer|complete|process) (?:that|this|your)"
    r"(?: (?:request|task|question|prompt|query|sentence|text|instruction)|[.,;!]|$))"
)
REFUSAL = (
    rf"^(?:(?:{_SORRY})?(?:but |that )?{_MACHINE}"
    rf"|{_SORRY}but {_CANNOT}\b"
    rf"|(?:{_SORRY})?(?:but |that )?{_CANNOT}{_SERVE}"
    r"|(?:please|(?:could|can|would) you(?: please)?) (?:provide|share|give)(?: me)?(?: with)? "
    r"(?:the|a|your|more) (?:(?:original|full) )?(?:sentence|text|context)\b"
    r"|(?:there (?:is|was)|there['’]s) no (?:sentence|text) (?:provided|given|to|in your|below)\b"
    r"|there (?:is|are) no (?:entit(?:y|ies)|numbers?|quantit(?:y|ies)) in (?:the|this|your)"
    r"(?: given| provided)? (?:sentence|text|record)\b"
    r"|no (?:sentence|text) (?:was|is|has been) (?:provided|given)\b"
    rf"|(?:{_SORRY})?(?:but )?(?:this|the|that|your)(?: given)? sentence "
    r"(?:cannot|can['’]t|could not) be (?:re-?written|rephrased|paraphrased|contradicted)\b"
    r"|i (?:do not|don['’]t) understand (?:the|this|your) (?:request|instructions?|task|prompt)\b"
    r"|you (?:have not|haven['’]t|did not|didn['’]t) (?:provided?|given?) (?:the|an?|any) "
    r"(?:sentence|text)\b)"
)

_REWORDED = (
    r"(?:re-?written|rephrased|paraphrased|reworded|reformulated|contradict(?:ing|ory)|preceding"
    r"|transformed)"
)
_CHANGED = r"(?:revised|modified|changed|edited|altered|updated|corrected|opposite|resulting)"
_PIECE = r"(?:sentence|text|version|statement|rewrite|rewriting|paraphrase|rephrasing|revision)"
_OPENING = (
    r"(?:sure|certainly|of course|absolutely|ok|okay|alright|no problem|gladly|great)"
    r"(?: thing)?[,.!:;—– -]+"
)
_IS = r"(?: is| are|['’]s| you go)"
_SAY = (
    r"(?:say(?:ing)?|put(?:ting)?|writ(?:e|ing)|phras(?:e|ing)|express(?:ing)?|re-?writ(?:e|ing)"
    r"|re-?phras(?:e|ing)|paraphras(?:e|ing)|reword(?:ing)?)"
)
# Beginnings that refer to the answer itself.
PREAMBLE = (
    rf"^[*#\s]*(?:(?:{_OPENING}|as (?:requested|asked),? )?(?:here|below){_IS}\b"
    rf"[^.?!\n]{{0,80}}\b(?:{_REWORDED}|{_CHANGED}|{_PIECE})\b[^.?!\n:]{{0,60}}:"
    rf"|(?:{_OPENING})?(?:this|the following){_IS}\b"
    rf"[^.?!\n]{{0,40}}\b(?:{_REWORDED}|{_CHANGED}) {_PIECE}\b[^.?!\n:]{{0,60}}:"
    rf"|{_OPENING}(?:here|below|this){_IS}(?:\b[^.?!\n:]{{0,80}}[:.!]?\n"
    r"|(?: (?:it|one|the|an?|my|your|what you)\b[^.?!\n:]{0,60})?:)"
    r"|(?:sure|certainly|of course|absolutely|no problem|gladly)(?: thing)?!\s"
    r"|here you go\b[^.?!\n:]{0,30}:"
    r"|i(?:['’]d| would) be (?:happy|glad) to (?:help|assist|rewrite|rephrase|paraphrase)\b"
    rf"|{_OPENING}(?:i(?:['’]ll| will| can|['’]d)|let me|happy to)[^.?!\n]{{0,20}} "
    r"(?:rewrite|rephrase|paraphrase|help you|help with|revise|provide you|do that for you)\b"
    rf"|(?:the |your |my )?{_REWORDED}(?: version of the)? (?:{_PIECE}|answer|passage|output)"
    r"(?: \d+)?[*\s]*(?:(?:is|would be|could be)[*\s]*:|:|[–—-]\s)"
    rf"|(?:alternatively,? )?(?:one|you|we|i) (?:could|can|might)(?: also| instead)? {_SAY}\b"
    r"[^.?!\n:]{0,40}:"
    rf"|(?:here{_IS} )?(?:an?|another|one)(?: different| other| alternative| possible)? way "
    rf"(?:of|to) {_SAY} (?:it|this|that|the)\b[^.?!\n:]{{0,40}}:"
    r"|the (?:sentence|text|line)\b[^.?!\n:]{0,40}\b(?:before|preced\w+|above|below)\b"
    r"[^.?!\n:]{0,40}\b(?:is|would be|could be|might be|may be|reads)\s*:"
    r"|(?:user|human)\s*:(?s:.)*\b(?:assistant|ai|model)\s*:"
    rf"|(?:{_OPENING})?(?:so,? )?the user (?:wants|asked|asks|is asking|has asked) (?:me|us)\b"
    rf"|(?:{_OPENING})?(?:let me|let['’]s|i(?:['’]ll| will| need to| have to| should| must)) "
    r"(?:try to )?(?:rewrite|rephrase|paraphrase|reword|contradict) (?:the|this|that|it)\b"
    rf"|(?:{_OPENING}|first,? |now,? )(?:i (?:need|have|want) to|let me|let['’]s) "
    r"(?:[a-z]+ ){1,4}(?:user|sentence|request|prompt)\b)"
)
# Labels of an answer, unless the source itself contains such a label ("Sentence: what a full stop
# ends").
LABEL = (
    rf"^[*#\s]*(?:(?:the |your |my )?(?:{_CHANGED}|new|original|final|previous|next|generated)"
    rf"(?: version of the)? (?:{_PIECE}|answer|passage)|sentence|answer|assistant"
    r"|rewrite|rewriting|rewritten|paraphrase|paraphrased|rephrasing|rephrased|reworded)"
    rf"(?: \d+)?[*\s]*:|^(?:the|my|one)(?: possible)? (?:{_PIECE}|answer)"
    r" (?:is|would be|could be|might be)\s*:"
)
THINGS = rf"\b(?:{_PIECE}|answer|passage|assistant)s?\b"
# Remarks after an answer.
AFTERWORD = (
    r"\((?:note:|explanation:|i (?:have )?(?:changed|kept|replaced|rephrased|rewrote|rewritten)"
    r"|this (?:version|rewrite)|same meaning)[^()]*\)[^\p{L}\p{N}]*$"
    r"|\b(?:keep|retain|preserve|maintain|convey)(?:s|ing)? the (?:original|same) "
    r"(?:meaning|sense|message)\b|\bmeaning of the original\b"
    r"|\b(?:let me know if you|i hope (?:this|that|it) helps|anything else i can (?:help|assist))\b"
    r"|[.!?]\s+(?:user|human|assistant)\s*:"
)
# Direct speech, which is neither a refusal nor a preamble.
SPOKEN = (
    r"[,.!?…][\"”’']?\s+(?:[\w.]+\s+){0,3}(?:said|says|replied|answered|admitted|explained)\b"
    r"|[,.!?…][\"”’']\s+(?:said|says|replied|answered)\b"
)

_TOKEN = (
    r"<\|[^<>|]{1,40}\|>|</?s>|<(?:eos|bos|pad|unk)>|<(?:start|end)_of_(?:turn|text)>|\[/?INST\]"
)
# Control tokens at the end of an answer are removed.
END_TOKENS = rf"(?:\s*(?:{_TOKEN}))+$"
MARKUP = (
    rf"{_TOKEN}|</[a-z][\w-]*>|^<[a-z][\w-]*>"
    r"|^(?:[-*•]|\d{1,2}[.)]|#{1,6})\s+\S"
    r"|^[\[{]\s*[\"{\[](?s:.)*[\]}]$"
)
NOTHING = r"^(?:[^\p{L}\p{N}]*|n/?a|none|null|nil)[.!]?$"
# A repetition of the prompt's record.
RECORD = r"^(?:subject: [^\n]{0,80}?)?\b(?:entities|numbers):\s"

# References of a query to the text that it was written for, which a searcher has not seen. A match
# of the second pattern does not count if the passage has the same words.
_A_TEXT = (
    r"(?:passage|text|excerpt|extract|paragraph|article|abstract|document|snippet|paper|study"
    r"|report|section|chapter|context|author|writer)s?"
)
POINTING = re.compile(
    rf"\b(?:this|these|the (?:above|given|following|provided|present)) {_A_TEXT}\b"
    r"|\b(?:mentioned|described|discussed|stated|given|shown) (?:above|below|here)\b",
    re.IGNORECASE,
)
OF_TEXT = re.compile(rf"\bthe {_A_TEXT}\b|\baccording to\b", re.IGNORECASE)
# A query that begins with a label.
OF_QUERY = re.compile(
    r"^[*#\s]*(?:(?:search|short) )?(?:questions?|query|queries|claims?|statements?|keywords?|words"
    r"|search|q)(?: \d+)?[*\s]*:",
    re.IGNORECASE,
)
ENDS_AS_QUESTION = re.compile(r"[?？؟][\"'”’»)]*$")

# Thoughts of a language model before its answer; patterns for RE2 and `re`.
_TAG = r"(?:seed:)?(?:think|thinking|thought|reasoning)>"
_ENDS = rf"</{_TAG}|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
THOUGHTS = rf"(?s)^(?:.*(?:{_ENDS})|analysis.*assistantfinal)"
"""A closed thought."""
OPEN_THOUGHT = rf"^\s*(?:<{_TAG}|\[THINK\]|◁think▷|<\|channel\|>analysis)"
