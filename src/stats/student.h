// Student's t distribution and the binomial distribution, as far as tests of hypotheses need them.
// Pure. Any argument gives a number from 0 to 1: those that make no sense give 1.
#pragma once

namespace pinprick::stats {

// Returns the probability that a t with `degrees` degrees of freedom is at least as far from 0.
double two_sided_probability(double t, double degrees);

// Returns the t that is exceeded in either direction with the probability `p`, which is in (0, 1).
double two_sided_quantile(double p, double degrees);

// Returns the probability that at least `least` of `trials` succeed, each with the probability
// `success`.
double binomial_at_least(double least, double trials, double success);

}  // namespace pinprick::stats
