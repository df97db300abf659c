"""Draws by row: even, normal, and the same in any batch."""

import torch

from tercet.models.generators import draws


def test_draws_are_even_and_differ_by_every_argument() -> None:
    seeds, indices = torch.arange(200)[:, None], torch.arange(300)
    drawn = draws.uniforms(seeds, draws.TOKEN, torch.tensor(3), indices)
    assert drawn.min() > 0
    assert drawn.max() < 1
    counts = torch.histc(drawn.float(), bins=50, min=0, max=1)
    # 1,200 a bin, with a standard deviation of 34.
    assert (counts - 1200).abs().max() < 170
    others = [
        draws.uniforms(seeds, draws.NOISE, torch.tensor(3), indices),
        draws.uniforms(seeds, draws.TOKEN, torch.tensor(4), indices),
        draws.uniforms(seeds + 200, draws.TOKEN, torch.tensor(3), indices),
        draws.uniforms(seeds, draws.TOKEN, torch.tensor(3), indices + 300),
    ]
    for other in others:
        pair = torch.stack([drawn.flatten(), other.flatten()])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.02


def test_noise_is_normal_and_does_not_depend_on_the_batch() -> None:
    seeds = torch.tensor([7, 8, 9])
    positions = torch.arange(40).expand(3, 40)
    noise = draws.normals(seeds, positions, 64)
    assert noise.shape == (3, 40, 64)
    assert abs(float(noise.mean())) < 0.04
    assert abs(float(noise.std()) - 1) < 0.04
    assert torch.equal(draws.normals(seeds[1:2], positions[1:2, 17:18], 64), noise[1:2, 17:18])
