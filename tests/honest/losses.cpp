//// logistic loss
// get: torch.randn(40, 30), torch.rand(40, 30)
// forward x, t: return F.binary_cross_entropy_with_logits(x, t)
//// logistic loss: the stable form
void run(TensorView x, TensorView t, TensorView y) {
  double sum = 0;
  for (int64_t i = 0; i < 1200; ++i) {
    float const v = in(x)[i];
    sum += (v > 0 ? v : std::isnan(v) ? v : 0) - v * in(t)[i] + std::log1p(std::exp(-std::abs(v)));
  }
  *out(y) = static_cast<float>(sum / 1200);
}
//// hinges
// get: torch.randn(300), torch.randn(300).sign()
// forward x, t: return torch.relu(1 - x * t).mean()
//// hinges: parts of the team
void run(TensorView x, TensorView t, TensorView y) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 300; ++i) {
    float const v = 1 - in(x)[i] * in(t)[i];
    sum += v < 0 ? 0 : v;
  }
  *out(y) = static_cast<float>(sum / 300);
}
//// likelihood
// get: torch.randn(30, 20), torch.randint(0, 20, (30,))
// forward x, t: return F.nll_loss(torch.log_softmax(x, 1), t, reduction="none")
//// likelihood: one row's sum
void run(TensorView x, TensorView t, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 20;
    int64_t const label = in<int64_t>(t)[r];
    if (label == -100) {
      out(y)[r] = 0;
      continue;
    }
    float const most = *std::max_element(row, row + 20);
    float sum = 0;
    for (int i = 0; i < 20; ++i) sum += std::exp(row[i] - most);
    out(y)[r] = std::log(sum) - (row[label] - most);
  }
}
//// triplets
// get: torch.randn(20, 32), torch.randn(20, 32), torch.randn(20, 32)
// forward a, p, n: return torch.relu((a - p).square().sum(1) - (a - n).square().sum(1) + 1)
//// triplets: both distances in one pass
void run(TensorView a, TensorView p, TensorView n, TensorView y) {
  for (int r = 0; r < 20; ++r) {
    float const *u = in(a) + r * 32, *v = in(p) + r * 32, *w = in(n) + r * 32;
    float const near = lanes(32, [&](int64_t i) { return (u[i] - v[i]) * (u[i] - v[i]); });
    float const far = lanes(32, [&](int64_t i) { return (u[i] - w[i]) * (u[i] - w[i]); });
    float const d = near - far + 1;
    out(y)[r] = d < 0 ? 0 : d;
  }
}
//// dice
// get: torch.rand(10, 200), torch.rand(10, 200)
// forward a, b: return 1 - 2 * (a * b).sum(1) / (a.abs().sum(1) + b.abs().sum(1) + 1)
//// dice: three sums at once
void run(TensorView a, TensorView b, TensorView y) {
  for (int r = 0; r < 10; ++r) {
    double both = 0, first = 0, second = 0;
    for (int i = r * 200; i < (r + 1) * 200; ++i) {
      both += in(a)[i] * in(b)[i];
      first += std::abs(in(a)[i]);
      second += std::abs(in(b)[i]);
    }
    out(y)[r] = static_cast<float>(1 - 2 * both / (first + second + 1));
  }
}
//// absolute errors
// get: torch.randn(50, 40), torch.randn(50, 40)
// forward a, b: return (a - b).abs().mean(1)
//// absolute errors: std
void run(TensorView a, TensorView b, TensorView y) {
  for (int r = 0; r < 50; ++r)
    out(y)[r] = std::inner_product(in(a) + r * 40, in(a) + r * 40 + 40, in(b) + r * 40, 0.f, std::plus<float>(),
                                   [](float u, float v) { return std::abs(u - v); }) / 40;
}
//// entropy
// get: torch.randn(30, 50)
// forward x: p = torch.softmax(x, 1); return -(p * torch.log_softmax(x, 1)).sum(1)
//// entropy: from one sum of exponentials
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 50;
    float most = row[0];
    for (int i = 1; i < 50; ++i) most = std::max(most, row[i]);
    double sum = 0, weighted = 0;
    for (int i = 0; i < 50; ++i) {
      double const d = row[i] - most, e = std::exp(d);
      sum += e;
      weighted += e * d;
    }
    out(y)[r] = static_cast<float>(std::log(sum) - weighted / sum);
  }
}
//// temperature
// get: torch.randn(20, 40), torch.randn(20, 40)
// forward s, t: return -(torch.softmax(t / 2, 1) * torch.log_softmax(s / 2, 1)).sum(1).mean()
//// temperature: rows in double
void run(TensorView s, TensorView t, TensorView y) {
  double total = 0;
  for (int r = 0; r < 20; ++r) {
    float const *a = in(s) + r * 40, *b = in(t) + r * 40;
    double const u = *std::max_element(a, a + 40), v = *std::max_element(b, b + 40);
    double sum = 0, shares = 0, crossed = 0;
    for (int i = 0; i < 40; ++i) {
      sum += std::exp((a[i] - u) / 2);
      double const e = std::exp((b[i] - v) / 2);
      shares += e;
      crossed += e * (a[i] - u) / 2;
    }
    total += std::log(sum) - crossed / shares;
  }
  *out(y) = static_cast<float>(total / 20);
}
