"""Kinds of nouns so narrow that any of a kind can stand in another's place and only the fact
changes: a month for a month, a metal for a metal. A word that is as often something else, such as
"spring", is in none."""

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
