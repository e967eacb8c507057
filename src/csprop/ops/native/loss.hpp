// Scores of the labelled steps of a row, the loss of them, and the adjoint of both.
//   s = W f + b                     f: the last layer's output h, or h / |h|, or the angle of h
//   L = −log p_y, p = softmax(s)    g_s = p − e_y
//   focal: L = −α_y (1 − p_y)^γ log p_y, with α_1 = α and α_0 = 1 − α where there are two classes
// The loss of a batch is the mean over its labelled steps.
#pragma once

#include "level.hpp"

namespace TARGET {

// log x for a normal x > 0, by its exponent and its mantissa in [1, 2).
template <typename real>
INLINE real logarithm(real x) {
    using F = Format<real>;
    typename F::bits bits;
    std::memcpy(&bits, &x, sizeof bits);
    const real exponent = real(typename F::integer(bits >> F::mantissa) - F::bias);
    bits = (bits & ((typename F::bits(1) << F::mantissa) - 1)) | (typename F::bits(F::bias) << F::mantissa);
    std::memcpy(&x, &bits, sizeof bits);
    return exponent * real(0.6931471805599453) + log_1p(x - 1);
}

// The loss of one step, and dL / d(−log p_y), the factor of its g_s.
struct Focal {
    double gamma, alpha;
    bool two;  // classes

    void apply(double surprise, int64_t label, double& loss, double& slope) const {
        constexpr double least = 1e-12;  // below it the slope of a power below 1 is infinite
        const double weight = !two ? 1 : label == 1 ? alpha : 1 - alpha;
        const double doubt = -std::expm1(-surprise), bounded = doubt < least ? least : doubt;
        const double power = std::pow(bounded, gamma);
        loss = weight * power * surprise;
        slope = weight * power;
        if (doubt >= least) slope += weight * gamma * std::pow(bounded, gamma - 1) * (1 - doubt) * surprise;
    }
};

// From the scores (classes, count) of some steps to their gradients, in place; gives the sum of their losses.
template <typename real>
double judge(const Plan& plan, real* scores, real* surprise, const int64_t* labels, int64_t count, int64_t& hits) {
    const Model& model = *plan.model;
    const int64_t classes = model.classes;
    const real share = real(1) / real(plan.labelled);
    real *__restrict most = surprise, *__restrict sum = surprise + count, *__restrict own = surprise + 2 * count;
    for (int64_t i = 0; i < count; i++) most[i] = scores[i], sum[i] = 0;
    for (int64_t c = 1; c < classes; c++) {
        const real* __restrict s = scores + c * count;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) most[i] = s[i] > most[i] || s[i] != s[i] ? s[i] : most[i];
    }
    for (int64_t i = 0; i < count; i++) {
        own[i] = most[i] - scores[labels[i] * count + i];
        hits += own[i] == 0;
    }
    for (int64_t c = 0; c < classes; c++) {
        real* __restrict s = scores + c * count;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) s[i] = exponential(s[i] - most[i]), sum[i] += s[i];
    }
    double loss = 0;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) own[i] += logarithm(sum[i]), sum[i] = share / sum[i];
    for (int64_t c = 0; c < classes; c++) {
        real* __restrict s = scores + c * count;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) s[i] *= sum[i];
    }
    const Focal focal{model.focal_gamma, model.focal_alpha, classes == 2};
    for (int64_t i = 0; i < count; i++) {
        scores[labels[i] * count + i] -= share;
        double value = own[i], slope = 1;
        if (model.focal) {
            focal.apply(own[i], labels[i], value, slope);
            for (int64_t c = 0; c < classes; c++) scores[c * count + i] *= real(slope);
        }
        loss += value;
    }
    return loss;
}

}  // namespace TARGET
