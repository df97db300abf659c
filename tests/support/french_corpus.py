"""Made-up French sentences about towns, persons and quantities."""

import random
import re

_WORDS = {
    "town": """
        Amiens Angers Annecy Arras Avignon Besançon Bordeaux Brest Caen Colmar Dijon Dunkerque
        Épinal Évreux Grenoble Limoges Lille Lorient Lyon Marseille Metz Montpellier Mulhouse Nancy
        Nantes Nice Nîmes Orléans Paris Perpignan Poitiers Quimper Reims Rennes Roubaix Rouen
        Strasbourg Toulouse Tours Valence Vannes Versailles""",
    "land": "Italie Espagne Allemagne Autriche Irlande Argentine Islande Australie",
    "first": """
        Adrien Agathe Antoine Camille Cécile Chloé Denis Élise Étienne Fabien Gaëlle Hélène Jeanne
        Jules Julien Laure Lucie Marc Marion Mathilde Nicolas Noémie Olivier Pauline Quentin Romain
        Sophie Théo Valérie Yves""",
    "last": """
        Aubert Barbier Bertin Boucher Carpentier Chevalier Delmas Dumont Faure Fontaine Garnier
        Girard Lambert Lemoine Marchand Mercier Morel Perrin Renard Rousseau Roussel Tessier""",
    "firm": "Renault Airbus Michelin Danone Carrefour Thales Safran Bouygues Peugeot",
}
_SHAPES = (
    "{person} habite à {town} depuis {n} ans.",
    "La mairie de {town} a planté {n} arbres le long du canal.",
    "Le marché de {town} accueille {n} marchands chaque samedi.",
    "Le train de {town} à {other} met {n} minutes de moins qu'avant.",
    "{person} a vendu {n} tableaux à {neighbour} en {year}.",
    "En {year}, {firm} a ouvert une usine de {n} salariés près de {town}.",
    "Le musée de {town} possède {n} lettres de {person}.",
    "L'{land} a envoyé {n} médecins à {town} au printemps {year}.",
    "{person} est née le {day} mars {year} à {town}.",
    "Près de {town}, {person} cultive {n} hectares de blé.",
    "Selon {person}, {n} % des élèves de {town} apprennent le chant.",
    "La rivière qui traverse {town} est longue de {n} km.",
    "{firm} a recruté {n} ingénieurs à {town}, et {rival} en cherche encore.",
    "Avec {person}, les joueurs de {town} ont gagné {n} matchs sur leur pelouse.",
    "Le château que {person} a restauré à {town} compte {n} fenêtres.",
    "De {town} à {other}, la route passe par {n} ponts de pierre.",
    "Le roman de {person} se déroule à {town}, où vivent {n} pêcheurs.",
    "Les pompiers de {town} ont secouru {n} randonneurs dans la nuit.",
)
_FULL = re.compile(r"\b(d|qu)e (?=[AEIOUÉ])", re.IGNORECASE)


def french_lines(count: int, seed: int = 1) -> list[str]:
    """Different sentences, in a drawn order."""
    draw = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[_sentence(draw)] = None
    return list(made)


def _sentence(draw: random.Random) -> str:
    said = {kind: draw.sample(words.split(), 2) for kind, words in _WORDS.items()}
    person, neighbour = map(" ".join, zip(said["first"], said["last"], strict=True))
    sentence = draw.choice(_SHAPES).format(
        person=person,
        neighbour=neighbour,
        town=said["town"][0],
        other=said["town"][1],
        land=said["land"][0],
        firm=said["firm"][0],
        rival=said["firm"][1],
        n=draw.randint(2, 990),
        day=draw.randint(2, 28),
        year=draw.randint(1900, 2020),
    )
    return _FULL.sub(r"\1'", sentence)
