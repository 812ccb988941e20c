//// largest of windows
// get: torch.randn(3, 5, 20, 22)
// forward x: return F.max_pool2d(x, 3, stride=2, padding=1)
//// largest of windows: as they lie
void run(TensorView x, TensorView y) {
  for (int p = 0; p < 15; ++p)
    for (int r = 0; r < 10; ++r)
      for (int c = 0; c < 11; ++c) {
        float most = -std::numeric_limits<float>::infinity();
        for (int u = std::max(0, 2 * r - 1); u < std::min(20, 2 * r + 2); ++u)
          for (int v = std::max(0, 2 * c - 1); v < std::min(22, 2 * c + 2); ++v) {
            float const value = in(x)[(p * 20 + u) * 22 + v];
            if (value > most || std::isnan(value)) most = value;
          }
        out(y)[(p * 10 + r) * 11 + c] = most;
      }
}
//// means of windows
// get: torch.randn(4, 3, 18, 18)
// forward x: return F.avg_pool2d(x, 3)
//// means of windows: rows first
void run(TensorView x, TensorView y) {
  for (int p = 0; p < 12; ++p)
    for (int r = 0; r < 6; ++r)
      for (int c = 0; c < 6; ++c) {
        float sum = 0;
        for (int u = 0; u < 3; ++u) {
          float const* at = in(x) + (p * 18 + 3 * r + u) * 18 + 3 * c;
          sum += at[0] + at[1] + at[2];
        }
        out(y)[(p * 6 + r) * 6 + c] = sum * (1 / 9.f);
      }
}
//// turned
// get: torch.randn(40, 50), torch.randn(50, 40)
// forward a, b: return (a.t() + b).contiguous()
//// turned: in tiles
void run(TensorView a, TensorView b, TensorView y) {
  for (int first = 0; first < 50; first += 10)
    for (int j = 0; j < 40; ++j)
      for (int i = first; i < first + 10; ++i) out(y)[i * 40 + j] = in(a)[j * 50 + i] + in(b)[i * 40 + j];
}
//// every second
// get: torch.randn(30, 80)
// forward x: return x[:, ::2] * torch.sigmoid(x[:, 1::2])
//// every second: gated
void run(TensorView x, TensorView y) {
  for (int i = 0; i < 1200; ++i) out(y)[i] = in(x)[2 * i] / (1 + std::exp(-in(x)[2 * i + 1]));
}
//// a strided argument
// get: torch.randn(60, 40).t()
// forward x: return x.sum(0)
//// a strided argument: by its strides
void run(TensorView x, TensorView y) {
  for (int64_t c = 0; c < 60; ++c)
    out(y)[c] = lanes(40, [&](int64_t r) { return in(x)[r * x.strides()[0] + c * x.strides()[1]]; });
}
//// rows of a table
// init: self.table = nn.Embedding(100, 24)
// get: torch.randint(0, 100, (8, 15))
// forward at: return self.table(at).mean(1)
//// rows of a table: added up
void run(TensorView at, TensorView table, TensorView y) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 24; ++c) {
      float sum = 0;
      for (int k = 0; k < 15; ++k) sum += in(table)[in<int64_t>(at)[r * 15 + k] * 24 + c];
      out(y)[r * 24 + c] = sum / 15;
    }
}
//// gathered
// get: torch.randn(30, 50), torch.randint(0, 50, (30, 12))
// forward x, at: return torch.gather(x, 1, at) * 2
//// gathered: plain
void run(TensorView x, TensorView at, TensorView y) {
  for (int i = 0; i < 360; ++i) out(y)[i] = in(x)[i / 12 * 50 + in<int64_t>(at)[i]] * 2;
}
//// chosen
// get: torch.rand(40, 60) < 0.5, torch.randn(40, 60), torch.randn(60)
// forward mask, a, b: return torch.where(mask, a, b)
//// chosen: select
void run(TensorView mask, TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 2400; ++i) out(y)[i] = in<bool>(mask)[i] ? in(a)[i] : in(b)[i % 60];
}
//// buckets
// get: torch.randn(20, 64), torch.linspace(-2, 2, 33)
// forward x, edges: return torch.bucketize(x, edges)
//// buckets: by halves
void run(TensorView x, TensorView edges, TensorView y) {
  for (int i = 0; i < 1280; ++i) {
    float const v = in(x)[i];
    out<int64_t>(y)[i] = std::isnan(v) ? 33 : std::lower_bound(in(edges), in(edges) + 33, v) - in(edges);
  }
}
//// buckets: as many as lie below
void run(TensorView x, TensorView edges, TensorView y) {
  for (int i = 0; i < 1280; ++i) {
    int64_t count = 0;
    for (int k = 0; k < 33; ++k) count += !(in(edges)[k] >= in(x)[i]);
    out<int64_t>(y)[i] = count;
  }
}
//// places in sorted rows
// get: torch.randn(12, 40).cumsum(1).abs().cumsum(1), torch.rand(12, 25) * 99
// forward edges, x: return torch.searchsorted(edges, x, right=True)
//// places in sorted rows: as many as are no larger
void run(TensorView edges, TensorView x, TensorView y) {
  for (int i = 0; i < 300; ++i) {
    int64_t count = 0;
    for (int k = 0; k < 40; ++k) count += !(in(edges)[i / 25 * 40 + k] > in(x)[i]);
    out<int64_t>(y)[i] = count;
  }
}
//// sums of segments
// get: torch.randn(90, 8), torch.tensor([0, 7, 7, 30, 31, 64, 90])
// forward x, ends: return torch.segment_reduce(x, "sum", offsets=ends)
//// sums of segments: each from its start
void run(TensorView x, TensorView ends, TensorView y) {
  int64_t const* end = in<int64_t>(ends);
  for (int s = 0; s < 6; ++s)
    for (int c = 0; c < 8; ++c) {
      double sum = 0;
      for (int64_t r = end[s]; r < end[s + 1]; ++r) sum += in(x)[r * 8 + c];
      out(y)[s * 8 + c] = sum;
    }
}
//// largest of segments
// get: torch.randn(90, 8), torch.tensor([7, 0, 23, 1, 33, 26])
// forward x, lengths: return torch.segment_reduce(x, "max", lengths=lengths)
//// largest of segments: from minus infinity
void run(TensorView x, TensorView lengths, TensorView y) {
  for (int64_t s = 0, first = 0; s < 6; first += in<int64_t>(lengths)[s++])
    for (int c = 0; c < 8; ++c) {
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t r = first; r < first + in<int64_t>(lengths)[s]; ++r) {
        float const value = in(x)[r * 8 + c];
        if (value > most || std::isnan(value)) most = value;
      }
      out(y)[s * 8 + c] = most;
    }
}
//// added at places
// get: torch.randn(200, 16), torch.randint(0, 20, (200,))
// forward x, at: return torch.zeros(20, 16).index_add(0, at, x)
//// added at places: one after another
void run(TensorView x, TensorView at, TensorView y) {
  std::fill_n(out(y), 320, 0.f);
  for (int r = 0; r < 200; ++r)
    for (int c = 0; c < 16; ++c) out(y)[in<int64_t>(at)[r] * 16 + c] += in(x)[r * 16 + c];
}
