"""Arrays of JAX, which come by DLPack and are read-only."""

from __future__ import annotations

import numpy as np
import pytest

import detent

jax = pytest.importorskip("jax")


@pytest.fixture
def values():
    return np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


@pytest.mark.parametrize("text", ["int4_g32", "nvfp4", "fp8_e4m3fn"])
def test_formats_take_them(values, text):
    rounded = detent.Format(text).fake_quantize(jax.numpy.asarray(values))
    np.testing.assert_array_equal(rounded, detent.Format(text).fake_quantize(values))
    np.testing.assert_array_equal(jax.numpy.asarray(rounded), rounded)


def test_bfloat16_is_widened(values):
    halves = jax.numpy.asarray(values).astype("bfloat16")
    np.testing.assert_array_equal(
        detent.Format("int8").fake_quantize(halves),
        detent.Format("int8").fake_quantize(np.asarray(halves.astype("float32"))),
    )


def test_networks_and_sessions_take_them(net, images):
    expected = net.run(images)["logits"]
    columns = jax.numpy.asarray(np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
    for arrays in (jax.numpy.asarray(images), columns.transpose(0, 3, 1, 2)):
        np.testing.assert_array_equal(net.run({"x": arrays})["logits"], expected)
        np.testing.assert_array_equal(detent.Session(net).run({"x": arrays})["logits"], expected)


def test_calibrates_the_same(net, images):
    ours = net.quantize(iter(images), analyze=False).network.run(images)
    theirs = net.quantize((jax.numpy.asarray(image) for image in images), analyze=False).network.run(images)
    np.testing.assert_array_equal(ours["logits"], theirs["logits"])


def test_what_jit_traces_is_refused(values):
    with pytest.raises(TypeError, match="in memory of the processor"):
        jax.jit(detent.Format("int8").fake_quantize)(values)
