// cpt-replay in its natural parameters: the law and the likelihood of the package, written for Stan.
data {
  int<lower=1> points, curves, knots, nodes, powers;
  int<lower=0, upper=1> carried, slow, free_rho, free_zeta;
  array[curves] int<lower=1> first, last, domain;
  vector[curves] pretraining, share, known, base_loss, base_start;
  matrix[curves, nodes] base_level;
  matrix[curves, powers] base_forward;
  vector[points] steps, rate, start, forward_cpt, loss, gap;
  matrix[points, nodes] level;
  matrix[points, powers] forward;
  matrix[points, knots] ramps;
  real middle, half_width, power_middle, power_half_width, reference_steps, smallest;
  vector[2] memory_ends, slow_memory_ends, rho_ends;
}
parameters {
  vector[2] L0, a1, omega, D, kappa;
  vector<lower=0>[2] A, alpha, C1, C2, B, E, beta, tau, tau_0;
  real<lower=memory_ends[1], upper=memory_ends[2]> memory;
  vector<lower=slow_memory_ends[1], upper=slow_memory_ends[2]>[slow] slow_memory;
  vector[slow] slow_share_;
  vector<lower=rho_ends[1], upper=rho_ends[2]>[free_rho] rho;
  vector<lower=0>[free_zeta] zeta;
  real<lower=0> b, gamma, c, delta;
  vector[2] floor_, misfit_replay_;
  vector<lower=0>[2] fluctuation_memory, fluctuation_pt, fluctuation_cpt;
  vector<lower=0>[2] misfit_pt, misfit_cpt, offset_pt;
}
transformed parameters {
  vector[slow] slow_share = inv_logit(slow_share_);
  real level_power = free_zeta ? zeta[1] : 1;
  vector[2] fluctuation_floor = inv_logit(floor_);
  vector[2] misfit_replay = inv_logit(misfit_replay_);
}
model {
  vector[nodes] wave;
  vector[powers] power_wave = rep_vector(1, powers);
  {
    real angle = acos((-log(memory) - middle) / half_width);
    for (k in 1:nodes) wave[k] = cos((k - 1) * angle);
    if (slow) {
      real late = acos((-log(slow_memory[1]) - middle) / half_width);
      for (k in 1:nodes) wave[k] += slow_share[1] * (cos((k - 1) * late) - wave[k]);
    }
    if (free_rho) {
      real place = acos((rho[1] - power_middle) / power_half_width);
      for (k in 1:powers) power_wave[k] = cos((k - 1) * place);
    }
  }
  PRIORS
  {
    vector[points] own_level = level * wave;
    vector[curves] at_base = base_level * wave;
    vector[points] own_area;
    vector[curves] base_area;
    vector[points] log_forward = forward * power_wave;
    vector[curves] base_log_forward = base_forward * power_wave;
    for (curve in 1:curves) {
      at_base[curve] = fmax(at_base[curve], smallest);
      base_area[curve] = memory * (base_start[curve] ^ level_power - at_base[curve] ^ level_power);
      for (i in first[curve]:last[curve]) {
        real from = carried && pretraining[curve] < 0.5 ? at_base[curve] : start[i];
        own_area[i] = memory * (from ^ level_power - fmax(own_level[i], smallest) ^ level_power);
      }
    }
    for (curve in 1:curves) {
      int d = domain[curve];
      int size = last[curve] - first[curve] + 1;
      int floating = known[curve] < 0.5;
      array[size] int at = linspaced_int_array(size, first[curve], last[curve]);
      vector[size] t = steps[at];
      real x = share[curve];
      real h = 1;
      vector[size] expected;
      vector[size] heat = fluctuation_floor[d] + (1 - fluctuation_floor[d]) * rate[at];
      vector[size] sd;
      real misfit;
      real memory_of_fluctuation = fluctuation_memory[d] * reference_steps;
      if (pretraining[curve] > 0.5) {
        expected = L0[d] + A[d] * exp(-alpha[d] * log_forward[at]) - C1[d] * own_area[at];
        sd = fluctuation_pt[d] * heat;
        misfit = misfit_pt[d];
      } else {
        real scale;
        if (d == 1) h = x * exp(-gamma * log1p(b * (1 - x)));
        else h = expm1(-delta * log1p(c * x)) / expm1(-delta * log1p(c));
        scale = x > 0 ? E[d] * exp(omega[d] * log(x / h)) : E[d];
        expected = L0[d] + A[d] * exp(-alpha[d] * log_forward[at])
                   - C1[d] * base_area[curve] - C2[d] * exp(a1[d] * x) * own_area[at]
                   - (d == 1 ? 1 : -1) * B[d] * h * expm1(-beta[d] * log1p(scale * forward_cpt[at]))
                   - D[d] * x * expm1(-t / tau[d]);
        if (!floating) {
          real distance = base_loss[curve] - L0[d] + C1[d] * base_area[curve]
                          - A[d] * exp(-alpha[d] * base_log_forward[curve]);
          expected += distance * (kappa[d] + (1 - kappa[d]) * exp(-t / tau_0[d]));
        }
        sd = fluctuation_cpt[d] * heat;
        misfit = misfit_cpt[d] * sqrt(1 - misfit_replay[d] * (1 - h));
      }
      {
        int width = knots + floating;
        matrix[size, width] columns;
        vector[size] residual = (loss[at] - expected) ./ sd;
        vector[size] rho = exp(-gap[at] / memory_of_fluctuation);
        vector[size] spread = sqrt(-expm1(-2 * gap[at] / memory_of_fluctuation));
        matrix[size, width] white;
        vector[size] own;
        matrix[width, width] root;
        columns[, 1:knots] = misfit * diag_pre_multiply(inv(sd), ramps[at]);
        if (floating) columns[, width] = offset_pt[d] * inv(sd);
        white[1] = columns[1] / spread[1];
        own[1] = residual[1] / spread[1];
        if (size > 1) {
          white[2:size] = diag_pre_multiply(inv(spread[2:size]),
            columns[2:size] - diag_pre_multiply(rho[2:size], columns[1:(size - 1)]));
          own[2:size] = (residual[2:size] - rho[2:size] .* residual[1:(size - 1)]) ./ spread[2:size];
        }
        root = cholesky_decompose(add_diag(crossprod(white), 1));
        target += -0.5 * dot_self(own) - sum(log(sd)) - sum(log(spread)) - sum(log(diagonal(root)))
                  + 0.5 * dot_self(mdivide_left_tri_low(root, white' * own))
                  - 0.5 * size * log(2 * pi());
      }
    }
  }
}
