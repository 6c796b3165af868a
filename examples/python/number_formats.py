"""What rounding to number formats does to an array."""

import numpy as np

import detent

x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
for name in ("int8", "int4_g128", "fp8_e4m3fn", "nvfp4", "mx_e4m3"):
    number_format = detent.Format(name)
    encoded = number_format.encode(x)
    assert (encoded.decode() == number_format.fake_quantize(x)).all()
    print(f"{name:12} {number_format.error(x).sqnr_db:6.2f} dB in {encoded.nbytes} bytes")
