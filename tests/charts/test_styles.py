from itertools import combinations

import numpy as np
import pytest

from reporter.charts.styles import CATEGORIES, DARK, DECODER, ENCODER, LIGHT, MUTED, THEMES, style_models

# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB
DEFICIENCIES = {
    "none": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def oklab(rgb):
    """Ottosson 2020: a space in which distances are about as people see them."""
    lms = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                    [0.0883024619, 0.2817188376, 0.6299787005]]) @ rgb  # fmt: skip
    return np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                     [0.0259040371, 0.7827717662, -0.8086757660]]) @ np.cbrt(lms)  # fmt: skip


def lab(rgb):
    """CIE 1976 L*a*b* of linear RGB, for the white of sRGB."""
    xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                    [0.0193339, 0.1191920, 0.9503041]]) @ rgb / [0.95047, 1, 1.08883]  # fmt: skip
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, deficiency, space=oklab):
    a, b = (space(np.clip(np.array(DEFICIENCIES[deficiency]) @ linear(own), 0, 1)) for own in (one, other))
    return float(np.linalg.norm(a - b))


def contrast(one, other):
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return high / low


@pytest.mark.parametrize(("theme", "palette", "greys"), [("light", LIGHT, MUTED), ("dark", DARK, MUTED.values())])
def test_every_colour_stands_out_from_the_surface(theme, palette, greys):
    surface = THEMES[theme]["background"]
    assert min(contrast(colour, surface) for colours in palette.values() for colour in colours) >= 3
    assert contrast(next(iter(greys)), surface) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_an_encoder_is_never_taken_for_a_decoder_and_the_first_three_of_a_role_differ(palette, deficiency):
    closest = min((distance(e, d, deficiency), e, d) for e in palette[ENCODER] for d in palette[DECODER])
    assert closest[0] >= 0.06, closest
    firsts = [(a, b) for role in (ENCODER, DECODER) for a, b in combinations(palette[role][:3], 2)]
    assert min(distance(a, b, deficiency) for a, b in firsts) >= 0.05


@pytest.mark.parametrize(("theme", "roles"), [("light", LIGHT), ("dark", DARK)])
def test_what_is_no_model_has_no_colour_of_a_role_and_the_first_six_differ(theme, roles):
    names = list(CATEGORIES if theme == "light" else CATEGORIES.values())
    assert min(contrast(name, THEMES[theme]["background"]) for name in names) >= 3
    leading = [colour for role in (ENCODER, DECODER) for colour in roles[role][:2]]
    assert min(distance(name, colour, "none") for name in names for colour in leading) >= 0.1
    for deficiency in DEFICIENCIES:
        assert min(distance(a, b, deficiency) for a, b in combinations(names[:6], 2)) >= 0.1, deficiency
    for deficiency in ("none", "protanopia", "deuteranopia"):
        for count, least in ((6, 23), (len(names), 8)):
            pairs = ((distance(a, b, deficiency, lab), a, b) for a, b in combinations(names[:count], 2))
            assert (closest := min(pairs))[0] >= least, (deficiency, closest)


def test_styles_tell_twelve_models_of_a_role_apart_without_colour_and_an_unknown_role_is_neither():
    styles = style_models({f"{role}{i}": role for role in (ENCODER, DECODER) for i in range(12)})
    assert len({(style.shape, style.dash) for style in styles.models}) == 24
    styles = style_models({"b": "decoder", "a": "encoder", "c": "None"})
    by_role = [(role, own[0].model) for role, own in styles.by_role]
    assert by_role == [("encoder", "a"), ("decoder", "b"), ("other", "c")]
    light = [colour for colours in LIGHT.values() for colour in colours] + list(MUTED)
    assert len(light) == len(set(light)), "no light colour has two dark twins"
    assert styles.dark_colours[LIGHT[ENCODER][0]] == DARK[ENCODER][0]
