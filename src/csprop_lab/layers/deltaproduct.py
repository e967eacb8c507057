"""Gated DeltaProduct: several steps of the delta rule for each token."""

from csprop_lab.layers.gated_deltanet import GatedDeltaNet


class GatedDeltaProduct(GatedDeltaNet):
    """The gated DeltaProduct of Siems et al., with n_h = 2.

    With H_tj = I − β_tj k_tj k_tjᵀ, S_t = α_t S_{t−1} H_t1 … H_tn + Σ_j β_tj v_tj k_tjᵀ H_t(j+1) …
    H_tn: a token forgets once, makes n_h steps of the delta rule, each with its own k, v and β, and
    is read after the last. β is in (0, 2), and a factor may be a reflection: its eigenvalues are
    in [−1, 1]. All else is as in Gated DeltaNet, which is the same with n_h = 1 and β in (0, 1).
    """

    updates = 2
    reach = 2.0
