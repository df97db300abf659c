"""The steps of each seed's training, which can be made beside those of the others."""

from collections.abc import Sequence

from tercet.flows.pipeline.step import Step


def chains(steps: Sequence[Step], seeds: Sequence[int]) -> list[list[Step]]:
    """The steps of each of these seeds; none if there is one seed, or one reads another's.

    seeds: the recipe's, in order. The first one's steps have the names of the others' without seed.
    """
    own = {
        seed: [step for step in steps if step.name.endswith(f".seed{seed}")] for seed in seeds[1:]
    }
    plain = {s.name.removesuffix(f".seed{seed}") for seed, named in own.items() for s in named}
    found = [[step for step in steps if step.name in plain], *own.values()]
    names = [{step.name for step in chain} for chain in found]
    every = set().union(*names)
    for chain, mine in zip(found, names, strict=True):
        if not chain or any((every - mine).intersection(step.needs) for step in chain):
            return []
    return found


def reordered(steps: Sequence[Step], found: Sequence[Sequence[Step]]) -> list[Step]:
    """The steps with the chains after all that needs none of them, each after its inputs."""
    of_chains = {step.name for chain in found for step in chain}
    after = set(of_chains)
    for step in steps:
        if after.intersection(step.needs):
            after.add(step.name)
    places = [
        [step for step in steps if step.name not in after],
        [step for step in steps if step.name in of_chains],
        [step for step in steps if step.name in after - of_chains],
    ]
    return [step for place in places for step in place]
