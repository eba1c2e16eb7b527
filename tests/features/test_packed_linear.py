import torch
from torch import nn

from harness_core.features.packed_linear import pack_linear_layers


def test_packed_layers_compute_what_they_did_before() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 8, bias=False)).eval()
    for rows in (torch.randn(7, 24), torch.randn(2, 5, 24), torch.randn(0, 24)):
        with torch.inference_mode():
            expected = model(rows)
        with torch.inference_mode():
            found = pack_linear_layers(nn.Sequential(*model))(rows)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
