//// running sums
// get: torch.randn(20, 400)
// forward x: return torch.cumsum(x, dim=1)
//// running sums: in double
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    double sum = 0;
    for (int i = 0; i < 400; ++i) out(y)[r * 400 + i] = sum += in(x)[r * 400 + i];
  }
}
//// running sums: blocks of twenty
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    float before = 0;
    for (int first = 0; first < 400; first += 20) {
      float sum = 0;
      for (int i = first; i < first + 20; ++i) out(y)[r * 400 + i] = before + (sum += in(x)[r * 400 + i]);
      before += sum;
    }
  }
}
//// running products
// get: torch.rand(20, 50) + 0.5
// forward x: return torch.cumprod(x, dim=1)
//// running products: plain
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    float product = 1;
    for (int i = 0; i < 50; ++i) out(y)[r * 50 + i] = product *= in(x)[r * 50 + i];
  }
}
//// largest and where
// get: torch.randn(40, 100)
// forward x: found = x.max(dim=1); return found.values, found.indices
//// largest and where: the last of equals
void run(TensorView x, TensorView v, TensorView at) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 100;
    int64_t best = 0;
    for (int i = 1; i < 100; ++i)
      if (!std::isnan(row[best]) && (std::isnan(row[i]) || row[i] >= row[best])) best = i;
    out(v)[r] = row[best];
    out<int64_t>(at)[r] = best;
  }
}
//// least of columns
// get: torch.randn(60, 45)
// forward x: return x.argmin(dim=0)
//// least of columns: the first
void run(TensorView x, TensorView at) {
  for (int64_t c = 0; c < 45; ++c) {
    int64_t best = 0;
    for (int64_t r = 1; r < 60; ++r) {
      float const v = in(x)[r * 45 + c], b = in(x)[best * 45 + c];
      if (v < b || (std::isnan(v) && !std::isnan(b))) best = r;
    }
    out<int64_t>(at)[c] = best;
  }
}
//// best four
// get: torch.randn(50, 64)
// forward x: found = torch.topk(x, 4, dim=1); return torch.softmax(found.values, 1), found.indices
//// best four: by partial sort
void run(TensorView x, TensorView y, TensorView at) {
  for (int64_t r = 0; r < 50; ++r) {
    float const* row = in(x) + r * 64;
    std::vector<int> order(64);
    for (int i = 0; i < 64; ++i) order[i] = i;
    std::partial_sort(order.begin(), order.begin() + 4, order.end(), [&](int a, int b) {
      return (std::isnan(row[a]) && !std::isnan(row[b])) || row[a] > row[b];
    });
    float e[4], sum = 0;
    for (int k = 0; k < 4; ++k) sum += e[k] = std::exp(row[order[k]] - row[order[0]]);
    for (int k = 0; k < 4; ++k) {
      out(y)[r * 4 + k] = e[k] / sum;
      out<int64_t>(at)[r * 4 + k] = order[k];
    }
  }
}
//// in order
// get: torch.randn(30, 50)
// forward x: return torch.sort(x, dim=1).values
//// in order: std
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    std::copy_n(in(x) + r * 50, 50, out(y) + r * 50);
    std::sort(out(y) + r * 50, out(y) + r * 50 + 50, [](float a, float b) { return a < b || (a == a && b != b); });
  }
}
//// rounded
// get: torch.randn(40, 60)
// forward x: return torch.round(x * 8).clamp(-127, 127).to(torch.int8)
//// rounded: to even
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < 2400; ++i) {
    float const v = std::nearbyint(in(x)[i] * 8);
    out<int8_t>(y)[i] = static_cast<int8_t>(std::min(std::max(v, -127.f), 127.f));
  }
}
//// running maxima
// get: torch.randn(30, 60)
// forward x: return torch.cummax(x, 1).values
//// running maxima: NaN stays
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float most = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < 60; ++i) {
      float const v = in(x)[r * 60 + i];
      if (!(v < most) && !std::isnan(most)) most = v;
      out(y)[r * 60 + i] = most;
    }
  }
}
//// medians
// get: torch.randn(40, 31)
// forward x: return x.median(1).values
//// medians: nth element
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 40; ++r) {
    std::array<float, 31> row;
    std::copy_n(in(x) + r * 31, 31, row.begin());
    auto const broken = std::find_if(row.begin(), row.end(), [](float v) { return std::isnan(v); });
    if (broken == row.end()) std::nth_element(row.begin(), row.begin() + 15, row.end());
    out(y)[r] = broken == row.end() ? row[15] : *broken;
  }
}
//// differences
// get: torch.randn(20, 40)
// forward x: return x[:, 1:] - x[:, :-1]
//// differences: std
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 20; ++r)
    std::transform(in(x) + r * 40 + 1, in(x) + r * 40 + 40, in(x) + r * 40, out(y) + r * 39, std::minus<float>());
}
//// third largest
// get: torch.randn(40, 25)
// forward x: return torch.topk(x, 3, dim=1).values[:, 2]
//// third largest: insertion
void run(TensorView x, TensorView y) {
  auto above = [](float a, float b) { return (std::isnan(a) && !std::isnan(b)) || a > b; };
  for (int r = 0; r < 40; ++r) {
    float best[4];
    int held = 0;
    for (int i = 0; i < 25; ++i) {
      int k = std::min(held, 3);
      for (best[k] = in(x)[r * 25 + i]; k > 0 && above(best[k], best[k - 1]); --k) std::swap(best[k], best[k - 1]);
      held = std::min(held + 1, 3);
    }
    out(y)[r] = best[2];
  }
}
//// one of each
// get: torch.randint(0, 9, (50,))
// forward x: return F.one_hot(x, 9).float()
//// one of each: comparisons
void run(TensorView x, TensorView y) {
  for (int i = 0; i < 450; ++i) out(y)[i] = in<int64_t>(x)[i / 9] == i % 9;
}
//// linear recurrence
// get: torch.rand(16, 8) * 0.9, torch.randn(16, 8)
// forward a, x: p = torch.cumprod(torch.cat([torch.ones(16, 1), a[:, 1:]], 1), 1); return p * x[:, :1]
//// linear recurrence: a running factor
void run(TensorView a, TensorView x, TensorView y) {
  for (int r = 0; r < 16; ++r) {
    float p = 1;
    for (int i = 0; i < 8; ++i) {
      p *= i ? in(a)[r * 8 + i] : 1;
      out(y)[r * 8 + i] = p * in(x)[r * 8];
    }
  }
}
