/* Exit times of the `met` problem, by hand: the yardstick that fkpinn's path speed is held to.
 *
 * Two entries: `exit_steps` is tuned, `exit_steps_plain` is the loop one writes first.
 *
 * Same walk as fkpinn's default: stochastic Heun in the double well, stopped a shift inside the
 * hexagon; same numbers: Philox4x32-10 at counter (block, path, point, 0), Box-Muller, two steps
 * a block. Each thread keeps LANES paths going, in loops that the compiler turns into vector
 * instructions; a lane whose path has ended takes the next path of the queue.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef LANES
#define LANES 64
#endif

typedef struct {
    float x[LANES], y[LANES];
    uint32_t path[LANES], point[LANES], block[LANES], words[4][LANES];
    uint32_t steps[LANES], running[LANES]; /* running: 1 or 0 */
    int64_t owner[LANES];    /* index of the path among all, -1 for an idle lane */
} __attribute__((aligned(64))) Lanes;

typedef struct {
    float dt, noise, limit; /* step, sigma * sqrt(dt), distance of the shifted edges from 0 */
    uint32_t key[2];
} Walk;

/* Philox4x32-10 in all lanes. Each word sits in the low half of a 64-bit one, what is above it
 * being ignored, so that one instruction multiplies and a shift gives the high word. */
#if defined(__AVX512F__)
typedef uint64_t Wide __attribute__((vector_size(64), may_alias));
#define MULTIPLY(a, b) ((Wide)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
typedef uint64_t Wide __attribute__((vector_size(32), may_alias));
#define MULTIPLY(a, b) ((Wide)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#else
typedef uint64_t Wide __attribute__((vector_size(16), may_alias));
#define MULTIPLY(a, b) (((a) & 0xFFFFFFFFu) * (b))
#endif
#define PER_WIDE (sizeof(Wide) / 4) /* lanes, even ones in the low halves, odd ones above */

typedef struct {
    Wide c0, c1, c2, c3;
} Counter;

static inline Counter mixed(Counter c, Wide k0, Wide k1) {
    const Wide zero = {0};
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        Wide p0 = MULTIPLY(c.c0, zero + 0xD2511F53u), p1 = MULTIPLY(c.c2, zero + 0xCD9E8D57u);
        c = (Counter){(p1 >> 32) ^ c.c1 ^ k0, p1, (p0 >> 32) ^ c.c3 ^ k1, p0};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

static inline Wide joined(Wide even, Wide odd) { return (even & 0xFFFFFFFFu) | (odd << 32); }

static inline void philox(const Walk *w, Lanes *restrict l) {
    const Wide zero = {0}, k0 = zero + w->key[0], k1 = zero + w->key[1];
    for (size_t i = 0; i < LANES; i += PER_WIDE) {
        Wide block = *(Wide *)&l->block[i], path = *(Wide *)&l->path[i];
        Wide point = *(Wide *)&l->point[i];
        Counter even = mixed((Counter){block, path, point, zero}, k0, k1);
        Counter odd = mixed((Counter){block >> 32, path >> 32, point >> 32, zero}, k0, k1);
        *(Wide *)&l->words[0][i] = joined(even.c0, odd.c0);
        *(Wide *)&l->words[1][i] = joined(even.c1, odd.c1);
        *(Wide *)&l->words[2][i] = joined(even.c2, odd.c2);
        *(Wide *)&l->words[3][i] = joined(even.c3, odd.c3);
    }
}

/* Natural logarithm of a normal number in (0, 1], to about an ulp (Cephes). */
static inline float log_of(float u) {
    uint32_t bits;
    memcpy(&bits, &u, 4);
    bits -= 0x3F3504F3u; /* sqrt(1/2), so that the mantissa below is in [sqrt(1/2), sqrt(2)) */
    float exponent = (float)((int32_t)bits >> 23);
    bits = (bits & 0x007FFFFFu) + 0x3F3504F3u;
    float m;
    memcpy(&m, &bits, 4);
    float f = m - 1.0f, z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    return exponent * 0.693147180559945f + (f + z * (p * f - 0.5f));
}

/* Two normals from two words: radius from the first, angle from the second. */
static inline void box_muller(uint32_t a, uint32_t b, float *first, float *second) {
    float radius = sqrtf(-2.0f * log_of(((float)a + 0.5f) * 0x1p-32f));
    float t = (float)(b << 1) * 7.3145898e-10f + (7.3145898e-10f - 1.57079632679f);
    float q = t * t;
    float sine = 2.6051662760628754e-06f, cosine = -2.605107619580745e-07f;
    sine = sine * q - 0.0001980904635739699f;
    sine = sine * q + 0.008333050617328103f;
    sine = sine * q - 0.16666657969904713f;
    sine = sine * q + 0.9999999957158399f;
    cosine = cosine * q + 2.476013550753356e-05f;
    cosine = cosine * q - 0.0013888360842345025f;
    cosine = cosine * q + 0.04166663620891113f;
    cosine = cosine * q - 0.49999999356955876f;
    cosine = cosine * q + 0.9999999997799042f;
    *first = radius * (b >> 31 ? -cosine : cosine);
    *second = radius * (t * sine);
}

/* One stochastic Heun step; whether the new point is beyond the shifted hexagon. */
static inline uint32_t step(const Walk *w, float *x, float *y, float zx, float zy) {
    float nx = w->noise * zx, ny = w->noise * zy, dt = w->dt;
    float bx = *x - *x * *x * *x, by = -*y;
    float px = *x + bx * dt + nx, py = *y + by * dt + ny;
    *x += 0.5f * dt * (bx + px - px * px * px) + nx;
    *y += 0.5f * dt * (by - py) + ny;
    /* the farthest of the three pairs of edges: two of them lean, one is level */
    float lean = 0.866025403784f * fabsf(*x) + 0.5f * fabsf(*y);
    return fmaxf(lean, fabsf(*y)) > w->limit;
}

/* Two steps in all lanes; how many paths have ended in them. */
static int advance(const Walk *w, Lanes *restrict l) {
    int ended = 0;
    philox(w, l);
#pragma omp simd reduction(+ : ended)
    for (int i = 0; i < LANES; i++) {
        float z0, z1, z2, z3, x = l->x[i], y = l->y[i];
        box_muller(l->words[0][i], l->words[1][i], &z0, &z1);
        box_muller(l->words[2][i], l->words[3][i], &z2, &z3);
        uint32_t running = l->running[i];
        uint32_t out = step(w, &x, &y, z0, z1);
        uint32_t still = running & ~out;
        l->steps[i] += running + still;
        out = step(w, &x, &y, z2, z3);
        l->running[i] = still & ~out;
        l->x[i] = x;
        l->y[i] = y;
        l->block[i] += 1;
        ended += running & ~l->running[i];
    }
    return ended;
}

/* Put the next path of the queue into a lane; 0 if there is none. */
static int refill(Lanes *l, int i, int64_t *next, int64_t total, int64_t n_paths,
                  const float *points) {
    int64_t owner;
#pragma omp atomic capture
    owner = (*next)++;
    int64_t point = owner < total ? owner / n_paths : 0;
    l->owner[i] = owner < total ? owner : -1;
    l->running[i] = owner < total;
    l->point[i] = (uint32_t)point;
    l->path[i] = (uint32_t)(owner % n_paths);
    l->x[i] = points[2 * point];
    l->y[i] = points[2 * point + 1];
    l->block[i] = l->steps[i] = 0;
    return owner < total;
}

/* Steps until exit of every path, `n_paths` from each of `n_points` points; their sum. */
int64_t exit_steps(const float *points, int64_t n_points, int64_t n_paths, float dt, float sigma,
                   const uint32_t *key, uint32_t *steps) {
    Walk walk = {dt, sigma * sqrtf(dt), 0, {key[0], key[1]}};
    walk.limit = 1.73205080757f - 0.5826f * walk.noise; /* Gobet-Menozzi shift */
    int64_t next = 0, taken = 0, total = n_points * n_paths;
#pragma omp parallel reduction(+ : taken)
    {
        Lanes lanes;
        int busy = 0;
        for (int i = 0; i < LANES; i++) busy += refill(&lanes, i, &next, total, n_paths, points);
        while (busy > 0) {
            if (!advance(&walk, &lanes)) continue;
            for (int i = 0; i < LANES; i++) {
                if (lanes.running[i] || lanes.owner[i] < 0) continue;
                steps[lanes.owner[i]] = lanes.steps[i];
                taken += lanes.steps[i];
                busy -= !refill(&lanes, i, &next, total, n_paths, points);
            }
        }
    }
    return taken;
}

/* Philox4x32-10 for one counter. */
static inline void philox_one(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1,
                            (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
        memcpy(c, next, sizeof next);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The same, one path after the other on each core. */
int64_t exit_steps_plain(const float *points, int64_t n_points, int64_t n_paths, float dt,
                         float sigma, const uint32_t *key, uint32_t *steps) {
    Walk walk = {dt, sigma * sqrtf(dt), 0, {key[0], key[1]}};
    walk.limit = 1.73205080757f - 0.5826f * walk.noise;
    int64_t taken = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : taken)
    for (int64_t owner = 0; owner < n_points * n_paths; owner++) {
        int64_t point = owner / n_paths;
        float x = points[2 * point], y = points[2 * point + 1];
        uint32_t n = 0;
        for (uint32_t block = 0;; block++) {
            uint32_t c[4] = {block, (uint32_t)(owner % n_paths), (uint32_t)point, 0};
            float z0, z1;
            philox_one(c, key[0], key[1]);
            box_muller(c[0], c[1], &z0, &z1);
            n++;
            if (step(&walk, &x, &y, z0, z1)) break;
            box_muller(c[2], c[3], &z0, &z1);
            n++;
            if (step(&walk, &x, &y, z0, z1)) break;
        }
        steps[owner] = n;
        taken += n;
    }
    return taken;
}
