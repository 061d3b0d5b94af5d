/* Elementwise parts of the network with their gradients, for training only: each in one walk over memory, no threads. */

#include <math.h>

static inline float bounded(float x) { return fminf(fmaxf(x, -30), 30); }
static inline float sigmoid(float x) { return 1 / (1 + expf(-bounded(x))); }
static inline float tanh_of(float x) { return 1 - 2 / (expf(2 * bounded(x)) + 1); }

/* SiTU. both: [n][2 w], gates before ups; out: [n][w] = b tanh(g/b) sigmoid(g) l tanh(u/l). */
void situ_forward(long n, long w, float b, float l, const float *both, float *out) {
    for (long i = 0; i < n; i++) {
        const float *g = both + 2 * i * w, *u = g + w;
        for (long j = 0; j < w; j++) out[i * w + j] = b * tanh_of(g[j] / b) * sigmoid(g[j]) * l * tanh_of(u[j] / l);
    }
}

void situ_backward(long n, long w, float b, float l, const float *both, const float *grad, float *to) {
    for (long i = 0; i < n; i++) {
        const float *g = both + 2 * i * w, *u = g + w;
        float *dg = to + 2 * i * w, *du = dg + w;
        for (long j = 0; j < w; j++) {
            float tg = tanh_of(g[j] / b), s = sigmoid(g[j]), tu = tanh_of(u[j] / l), go = grad[i * w + j];
            dg[j] = go * l * tu * s * (1 - tg * tg + b * tg * (1 - s));
            du[j] = go * b * tg * s * (1 - tu * tu);
        }
    }
}

/* Causal depthwise convolution, then SiLU. x, y: [n][T][w]; taps: [K][w], the last one is the present. */
void conv_forward(long n, long T, long w, long K, const float *x, const float *taps, float *y) {
    for (long s = 0; s < n; s++)
        for (long t = 0; t < T; t++) {
            float *to = y + (s * T + t) * w;
            for (long c = 0; c < w; c++) to[c] = 0;
            for (long i = 0; i < K; i++)
                if (t - (K - 1) + i >= 0) {
                    const float *from = x + (s * T + t - (K - 1) + i) * w;
                    for (long c = 0; c < w; c++) to[c] += taps[i * w + c] * from[c];
                }
            for (long c = 0; c < w; c++) to[c] *= sigmoid(to[c]);
        }
}

/* gx and gtaps start at zero; z is room for [w]. */
void conv_backward(long n, long T, long w, long K, const float *x, const float *taps, const float *grad, float *gx,
                   float *gtaps, float *z) {
    for (long s = 0; s < n; s++)
        for (long t = 0; t < T; t++) {
            const float *go = grad + (s * T + t) * w;
            long first = t - (K - 1) < 0 ? K - 1 - t : 0;
            for (long c = 0; c < w; c++) z[c] = 0;
            for (long i = first; i < K; i++) {
                const float *from = x + (s * T + t - (K - 1) + i) * w;
                for (long c = 0; c < w; c++) z[c] += taps[i * w + c] * from[c];
            }
            for (long c = 0; c < w; c++) {
                float sig = sigmoid(z[c]);
                z[c] = go[c] * sig * (1 + z[c] * (1 - sig));
            }
            for (long i = first; i < K; i++) {
                long at = (s * T + t - (K - 1) + i) * w;
                for (long c = 0; c < w; c++) {
                    gx[at + c] += taps[i * w + c] * z[c];
                    gtaps[i * w + c] += x[at + c] * z[c];
                }
            }
        }
}

/* Residual mix: out = sum p_i x_i, p the softmax of fold . x_i / rms(x_i). k sources [n][w]; p: [n][k]. */
void mix_forward(long n, long w, long k, float eps, const float *const *x, const float *fold, float *out, float *p) {
    for (long t = 0; t < n; t++) {
        float top = -1e30f, sum = 0;
        for (long i = 0; i < k; i++) {
            const float *v = x[i] + t * w;
            float dot = 0, square = 0;
            for (long c = 0; c < w; c++) { dot += fold[c] * v[c]; square += v[c] * v[c]; }
            p[t * k + i] = dot / sqrtf(square / w + eps);
            top = fmaxf(top, p[t * k + i]);
        }
        for (long i = 0; i < k; i++) sum += p[t * k + i] = expf(p[t * k + i] - top);
        for (long c = 0; c < w; c++) out[t * w + c] = 0;
        for (long i = 0; i < k; i++) {
            float share = p[t * k + i] /= sum;
            for (long c = 0; c < w; c++) out[t * w + c] += share * x[i][t * w + c];
        }
    }
}

/* gx are written, gfold starts at zero. */
void mix_backward(long n, long w, long k, float eps, const float *const *x, const float *fold, const float *p,
                  const float *grad, float *const *gx, float *gfold) {
    for (long t = 0; t < n; t++) {
        const float *go = grad + t * w;
        float gp[16], mean = 0;
        for (long i = 0; i < k; i++) {
            const float *v = x[i] + t * w;
            float dot = 0;
            for (long c = 0; c < w; c++) dot += go[c] * v[c];
            gp[i] = dot;
            mean += p[t * k + i] * dot;
        }
        for (long i = 0; i < k; i++) {
            const float *v = x[i] + t * w;
            float *to = gx[i] + t * w, dot = 0, square = 0, share = p[t * k + i];
            for (long c = 0; c < w; c++) { dot += fold[c] * v[c]; square += v[c] * v[c]; }
            float r = 1 / sqrtf(square / w + eps), gs = share * (gp[i] - mean), back = gs * dot * r * r * r / w;
            for (long c = 0; c < w; c++) {
                to[c] = share * go[c] + gs * r * fold[c] - back * v[c];
                gfold[c] += gs * r * v[c];
            }
        }
    }
}
