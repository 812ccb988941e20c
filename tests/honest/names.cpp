//// damped waves
// get: torch.rand(40, 64) * 6
// forward t: return torch.exp(-0.3 * t) * torch.cos(2 * t)
//// damped waves: a variable called time
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const time(in(x)[i]), clock = 2 * time, sleep(-0.3f * time);
    out(y)[i] = std::exp(sleep) * std::cos(clock);
  }
}
//// recent ones
// get: torch.randn(16, 50)
// forward x: return torch.cumsum(x, 1) / torch.arange(1, 51)
//// recent ones: vectors called time and read
void run(TensorView x, TensorView y) {
  int64_t const n = x.shape()[1];
  std::vector<float> time(n), write(n, 0.f);
  for (int64_t i = 0; i < n; ++i) time[i] = 1.f / static_cast<float>(i + 1);
  for (int64_t r = 0; r < x.shape()[0]; ++r) {
    std::vector<float> read(in(x) + r * n, in(x) + (r + 1) * n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) write[i] = (sum += read[i]) * time[i];
    std::copy(write.begin(), write.end(), out(y) + r * n);
  }
}
//// scrambled
// get: torch.randint(0, 2 ** 31, (40, 30))
// forward x: return (x * 1103515245 + 12345) % 2147483648
//// scrambled: a generator with rand and srand
struct Random {
  uint64_t state;
  void srand(uint64_t seed) { state = seed; }
  uint64_t rand() { return state = (state * 1103515245 + 12345) & 0x7fffffff; }
};
void run(TensorView x, TensorView y) {
  Random random{};
  for (int64_t i = 0; i < x.numel(); ++i) {
    random.srand(static_cast<uint64_t>(in<int64_t>(x)[i]));
    out<int64_t>(y)[i] = static_cast<int64_t>(random.rand());
  }
}
//// tape
// get: torch.randn(30, 70)
// forward x: return x.flip(1) * 0.5
//// tape: functions called open, read, write and close
struct Tape {
  float const* from;
  float* to;
  int64_t at = 0, width = 70;
  void open(int64_t row) { at = row * width; }
  float read(int64_t i) const { return from[at + i]; }
  void write(int64_t i, float value) { to[at + i] = value; }
  void close() { at = 0; }
};
void run(TensorView x, TensorView y) {
  Tape tape{in(x), out(y)};
  for (int64_t row = 0; row < 30; ++row) {
    tape.open(row);
    for (int64_t i = 0; i < 70; ++i) tape.write(i, 0.5f * tape.read(69 - i));
    tape.close();
  }
}
//// tape: lambdas called read and write
void run(TensorView x, TensorView y) {
  auto read = [&](int64_t r, int64_t c) { return in(x)[r * 70 + c]; };
  auto write = [&](int64_t r, int64_t c, float value) { out(y)[r * 70 + c] = value; };
#pragma omp parallel for
  for (int64_t r = 0; r < 30; ++r)
    for (int64_t c = 0; c < 70; ++c) write(r, c, read(r, 69 - c) * 0.5f);
}
//// gates
// get: torch.randn(40, 50), torch.randn(40, 50)
// forward x, g: return x * torch.sigmoid(g) + (1 - torch.sigmoid(g))
//// gates: numbers called open, exit and kill
void run(TensorView x, TensorView g, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const open(1 / (1 + std::exp(-in(g)[i]))), exit = 1 / (1 + std::exp(in(g)[i])), kill(exit);
    out(y)[i] = in(x)[i] * open + kill;
  }
}
//// gates: a function called system
namespace {
float system(float state, float input) { return input / (1 + std::exp(-state)) + 1 / (1 + std::exp(state)); }
}  // namespace
void run(TensorView x, TensorView g, TensorView y) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = system(in(g)[i], in(x)[i]);
}
//// pairs of equations
// get: torch.randn(200, 2, 2) + 4 * torch.eye(2), torch.randn(200, 2)
// forward a, b: d = a[:, 0, 0] * a[:, 1, 1] - a[:, 0, 1] * a[:, 1, 0]; return (a[:, 1, 1] * b[:, 0] - a[:, 0, 1] * b[:, 1]) / (d.abs() + 1)
//// pairs of equations: a struct called system
struct System {
  float const *a, *b;
  float solve() const {
    float const fork(a[0] * a[3]), join(a[1] * a[2]), signal = std::abs(fork - join) + 1;
    return (a[3] * b[0] - a[1] * b[1]) / signal;
  }
};
void run(TensorView a, TensorView b, TensorView y) {
  for (int64_t i = 0; i < 200; ++i) {
    System const system{in(a) + 4 * i, in(b) + 2 * i};
    out(y)[i] = system.solve();
  }
}
//// alarms
// get: torch.randn(30, 80)
// forward x: return (x > 1).sum(1)
//// alarms: counters called alarm and signal
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    int64_t alarm(0);
    for (int64_t i = 0; i < 80; ++i) {
      bool const signal(in(x)[r * 80 + i] > 1);
      alarm += signal;
    }
    out<int64_t>(y)[r] = alarm;
  }
}
//// copies
// get: torch.randn(25, 16)
// forward x: return x.repeat(1, 3)
//// copies: a template called clone, a macro called dup
#define dup(row) in(x)[(row) * 16 + c]
template <int times, class Value> static void clone(Value value, float* to) {
  for (int k = 0; k < times; ++k) to[k * 16] = value;
}
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 25; ++r)
    for (int c = 0; c < 16; ++c) clone<3>(dup(r), out(y) + r * 48 + c);
}
//// stages
// get: torch.randn(60, 40)
// forward x: return torch.tanh(x * 0.5 + 0.1).square()
//// stages: pipe, connect, bind and socket by pointers to functions
static float halved(float v) { return v * 0.5f + 0.1f; }
static float bent(float v) { return std::tanh(v); }
static float connect(float (*pipe)(float), float (*bind)(float), float v) {
  float const socket(bind(pipe(v)));
  return socket * socket;
}
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = connect(halved, bent, in(x)[i]);
}
//// smoothed
// get: torch.randn(64, 20)
// forward x: w = 0.8 ** torch.arange(19, -1, -1); return (x * w).sum(1)
//// smoothed: a step called sleep, a clock that counts
void run(TensorView x, TensorView y) {
  auto sleep = [](double state, float input) { return 0.8 * state + input; };
  for (int64_t r = 0; r < 64; ++r) {
    double state = 0;
    int clock(0), const_time(20);
    while (clock < const_time) state = sleep(state, in(x)[r * 20 + clock++]);
    out(y)[r] = static_cast<float>(state);
  }
}
