"""A step of a beam search: the three best continuations of all beams, where they come from, and what is carried on."""

import torch


class Model(torch.nn.Module):
    def forward(self, scores, history):
        best = torch.topk(scores.flatten(1), 3)
        beam = best.indices // scores.shape[2]
        return best.values, beam, best.indices % scores.shape[2], history.gather(1, beam)


def get_inputs():
    return [torch.randint(0, 40, (64, 3, 50)).float(), torch.randint(0, 30000, (64, 3))]
