"""Number formats."""

from __future__ import annotations

import pickle
import subprocess

import numpy as np
import pytest

import detent

TEXTS = [
    "int8", "int4_g128", "uint8", "fp8_e4m3fn", "fp4_e2m1", "nvfp4", "mx_e4m3", "binary", "ternary", "fixed",
    "codebook16", "block_fp", "log", "minifloat_ieee:width=6,exponent_width=3", "ternary:scaling_factor=true",
]  # fmt: skip


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((16, 256)).astype(np.float32)


@pytest.mark.parametrize("text", TEXTS)
def test_are_values(text):
    made = detent.Format(text)
    assert made == detent.Format(str(made))
    assert hash(made) == hash(detent.Format(str(made)))
    assert pickle.loads(pickle.dumps(made)) == made
    assert eval(repr(made), {"detent": detent}) == made
    assert detent.Format(made.name, **made.keys) == made
    assert made != detent.Format("int3")
    assert made != "int3"
    assert len({made, detent.Format(text)}) == 1


@pytest.mark.parametrize("text", TEXTS)
def test_decode_gives_what_fake_quantize_does(text, x):
    made = detent.Format(text)
    expected = made.fake_quantize(x)
    encoded = made.encode(x)
    np.testing.assert_array_equal(encoded.decode(), expected)
    np.testing.assert_array_equal(made.decode(encoded), expected)
    assert encoded.codes.dtype == np.uint8
    assert encoded.shape == x.shape
    assert made.storage_bits(x.shape) <= 8 * encoded.nbytes < made.storage_bits(x.shape) + 8 * len(encoded.streams)


def test_keys_are_those_of_the_text_form():
    assert detent.Format("int4", granularity="group", group_size=128) == detent.Format("int4_g128")
    assert detent.Format("fixed", width=4) == detent.Format("fixed:width=4")
    assert detent.Format("fixed:width=4", frac_width=1) == detent.Format("fixed:width=4,frac_width=1")


def test_values_and_range():
    fp4 = detent.Format("fp4_e2m1")
    assert fp4.values()[-1] == 6 and len(fp4.values()) == 15
    assert fp4.range == (-6, 6)
    assert fp4.bits == 4
    assert detent.Format("int8").values() == list(range(-127, 128)) or detent.Format("int8").range == (-128, 127)
    with pytest.raises(detent.Error):
        detent.Format("mx_e4m3").values()


def test_agrees_with_the_command(program, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    for text in ("int4_g128", "nvfp4", "fp8_e4m3fn"):
        out = tmp_path / f"{text}.npy"
        subprocess.run([program, "tensor", "quantize", tmp_path / "x.npy", "--format", text, "-o", out], check=True,
                       capture_output=True)  # fmt: skip
        np.testing.assert_array_equal(np.load(out), detent.Format(text).fake_quantize(x))


def test_error_is_that_of_the_values(x):
    for text in ("int4", "nvfp4"):
        made = detent.Format(text)
        found = made.error(x)
        noise = (made.fake_quantize(x).astype(np.float64) - x) ** 2
        assert found.mean_squared_error == pytest.approx(noise.mean(), rel=1e-6)
        assert found.sqnr_db == pytest.approx(10 * np.log10((x.astype(np.float64) ** 2).sum() / noise.sum()), rel=1e-6)
        assert found.max_error == pytest.approx(np.sqrt(noise.max()), rel=1e-6)
        assert found.count == x.size
        assert isinstance(found, detent.FormatError)
        assert found.to_dict()["cosine"] > 0.98


def test_saturates(x):
    made = detent.Format("fixed", width=4, frac_width=2)
    beyond = made.saturates(x)
    assert beyond.dtype == np.bool_
    assert 0 < beyond.mean() < 1
    assert np.abs(x[beyond]).min() > 1.7


def test_into_an_array(x):
    made = detent.Format("int4")
    expected = made.fake_quantize(x)
    out = np.empty_like(x)
    assert made.fake_quantize(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert made.fake_quantize(x, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_input_stays_as_it_is(x):
    before = x.copy()
    detent.Format("int4").fake_quantize(x)
    np.testing.assert_array_equal(x, before)


def test_takes_floats_of_any_width(x):
    made = detent.Format("int8")
    np.testing.assert_array_equal(made.fake_quantize(x.astype(np.float64)), made.fake_quantize(x))
    half = x.astype(np.float16)
    np.testing.assert_array_equal(made.fake_quantize(half), made.fake_quantize(half.astype(np.float32)))
    np.testing.assert_array_equal(made.fake_quantize(x.T), made.fake_quantize(np.ascontiguousarray(x.T)))
    assert made.fake_quantize(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert np.isnan(made.fake_quantize(np.float32([np.nan, 1]))[0])


def test_seed_matters_where_rounding_is_random(x):
    made = detent.Format("fixed", width=6, rounding="stochastic") if "rounding" in detent.Format("fixed").keys else None
    if made is None:
        made = detent.Format("binary", stochastic=True)
    assert (made.fake_quantize(x, seed=1) == made.fake_quantize(x, seed=1)).all()
    assert (made.fake_quantize(x, seed=1) != made.fake_quantize(x, seed=2)).any()


@pytest.mark.parametrize("name", ["", "int99", "fp9", "int8:width=3", "fixed:wdth=3", "int4_g0"])
def test_wrong_names_raise(name):
    with pytest.raises(detent.Error):
        detent.Format(name)


def test_errors_say_what_is_wrong():
    with pytest.raises(detent.Error) as caught:
        detent.Format("int99")
    assert "99" in caught.value.got
    assert caught.value.allowed
    with pytest.raises(detent.Error) as caught:
        detent.Format("fixed", width="wide")
    assert caught.value.key == "width"
    assert caught.value.node is None and caught.value.file is None


@pytest.mark.parametrize("value", [None, 3, ["int8"]])
def test_what_is_no_name_raises(value):
    with pytest.raises(TypeError):
        detent.Format(value)


@pytest.mark.parametrize("value", [None, 3.0, [1.0, 2.0], "x", np.zeros(3, np.int32), np.zeros(3, object)])
def test_what_is_no_array_of_floats_raises(value):
    for call in (detent.Format("int8").fake_quantize, detent.Format("int8").encode, detent.Format("int8").error):
        with pytest.raises(TypeError):
            call(value)


def test_wrong_out_raises(x):
    for out in (np.empty((3,), np.float32), np.empty_like(x, dtype=np.float64), x.T):
        with pytest.raises(TypeError):
            detent.Format("int8").fake_quantize(x, out=out)
    frozen = np.empty_like(x)
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        detent.Format("int8").fake_quantize(x, out=frozen)
    both = np.ones(10, np.float32)
    with pytest.raises(ValueError, match="out: shares a part"):
        detent.Format("int8").fake_quantize(both[1:], out=both[:-1])


def test_damaged_codes_raise(x):
    encoded = detent.Format("int4").encode(x)
    with pytest.raises(detent.Error):
        detent.Format("int8").decode(encoded)
    for streams in ({"codes": encoded.codes[:-1], "scales": encoded.scales}, {"codes": encoded.codes}):
        with pytest.raises(detent.Error):
            detent.Encoded(encoded.format, encoded.shape, "bits", streams).decode()
    with pytest.raises(detent.Error):
        detent.Format("int4").encode(np.float32([np.nan]))
    with pytest.raises(detent.Error, match="packing"):
        detent.Format("int4").encode(x, packing="base2")


def test_ternary_packs_in_base_3(x):
    encoded = detent.Format("ternary").encode(x, packing="base3")
    assert encoded.codes.nbytes == -(-x.size // 5)
    np.testing.assert_array_equal(encoded.decode(), detent.Format("ternary").fake_quantize(x))
    assert encoded.zero_points is None


def test_names():
    assert {"int8", "nvfp4", "fixed"} <= set(detent.format_names())
    for name in detent.format_names():
        if name != "codebook":  # its values have to be given
            assert detent.Format(name).bits > 0


def test_is_drawn_as_the_command_draws_it(program, tmp_path):
    subprocess.run([program, "formats", "show", "fp4_e2m1", "--svg", tmp_path / "fp4.svg"], check=True, capture_output=True)
    assert detent.Format("fp4_e2m1")._repr_svg_() == (tmp_path / "fp4.svg").read_text()
