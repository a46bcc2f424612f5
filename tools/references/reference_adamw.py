"""BERT's optimizer for the reference programs, out of torch's own parts."""

import torch

WARMUP_PROPORTION = 0.1
# Adam's bias corrections are 1 at such a step: BERT's Adam has none.
UNCORRECTED_STEP = 1e9


def bert_adamw(
    model: torch.nn.Module, peak: float, num_steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The optimizer of google-research/bert optimization.py, but for its clipping.

    Returns:
        The optimizer, and its schedule: the rate rises from 0, then joins the line from the peak at
        step 0 to zero at the end.
    """
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        excluded = "LayerNorm" in name or "bias" in name
        (plain if excluded else decayed).append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=peak,
        eps=1e-6,
        fused=True,
    )
    for parameter in (*decayed, *plain):
        optimizer.state[parameter] = {
            "step": torch.tensor(UNCORRECTED_STEP, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    num_warmup_steps = int(num_steps * WARMUP_PROPORTION)

    def part_of_peak(step: int) -> float:
        return step / num_warmup_steps if step < num_warmup_steps else 1 - step / num_steps

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, part_of_peak)
