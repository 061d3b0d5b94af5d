/* The gated delta rule with its gradient, for training only. One head and sequence after another, no threads.
 *
 * State S [D][D] (key row, value column), zero at the start of a sequence. For each position:
 *     S <- diag(a) S;  u = b (v - k^T S);  S <- S + k u^T;  o = q^T S
 * The gradient runs the sequence once more, keeps every state, and goes back through them. */

#include <string.h>

#ifndef D
#define D 32
#endif

/* One step in place; gives u and the read r = k^T (diag(a) S). */
static void step(float S[D][D], const float *k, const float *v, const float *a, float b, float *u, float *r) {
    for (int j = 0; j < D; j++) r[j] = 0;
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            S[i][j] *= a[i];
            r[j] += k[i] * S[i][j];
        }
    for (int j = 0; j < D; j++) u[j] = b * (v[j] - r[j]);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) S[i][j] += k[i] * u[j];
}

/* q, k, v, a, o: [n][T][D], b: [n][T]. */
void kda_forward(int n, int T, const float *q, const float *k, const float *v, const float *a, const float *b, float *o) {
    for (int s = 0; s < n; s++) {
        float S[D][D], u[D], r[D];
        memset(S, 0, sizeof S);
        for (int t = 0; t < T; t++) {
            long at = ((long)s * T + t) * D;
            step(S, k + at, v + at, a + at, b[(long)s * T + t], u, r);
            for (int j = 0; j < D; j++) o[at + j] = 0;
            for (int i = 0; i < D; i++)
                for (int j = 0; j < D; j++) o[at + j] += q[at + i] * S[i][j];
        }
    }
}

/* `states` is room for T + 1 states. Every gradient is written, none is added to. */
void kda_backward(int n, int T, const float *q, const float *k, const float *v, const float *a, const float *b,
                  const float *go, float *gq, float *gk, float *gv, float *ga, float *gb, float (*states)[D][D]) {
    for (int s = 0; s < n; s++) {
        float u[D], r[D], G[D][D];
        memset(states[0], 0, sizeof states[0]);
        memset(G, 0, sizeof G);
        for (int t = 0; t < T; t++) {
            long at = ((long)s * T + t) * D;
            memcpy(states[t + 1], states[t], sizeof states[0]);
            step(states[t + 1], k + at, v + at, a + at, b[(long)s * T + t], u, r);
        }
        for (int t = T - 1; t >= 0; t--) {
            long at = ((long)s * T + t) * D;
            float beta = b[(long)s * T + t], du[D], dr[D], sum = 0;
            float (*before)[D] = states[t], (*after)[D] = states[t + 1];
            for (int j = 0; j < D; j++) du[j] = r[j] = 0;
            for (int i = 0; i < D; i++) {
                float dot = 0, ai = a[at + i], ki = k[at + i], qi = q[at + i];
                for (int j = 0; j < D; j++) {
                    dot += after[i][j] * go[at + j];
                    G[i][j] += qi * go[at + j];
                    du[j] += ki * G[i][j];
                    r[j] += ki * (ai * before[i][j]);
                }
                gq[at + i] = dot;
            }
            for (int j = 0; j < D; j++) {
                u[j] = beta * (v[at + j] - r[j]);
                sum += du[j] * (v[at + j] - r[j]);
                gv[at + j] = beta * du[j];
                dr[j] = -beta * du[j];
            }
            gb[(long)s * T + t] = sum;
            for (int i = 0; i < D; i++) {
                float dk = 0, da = 0, ai = a[at + i], ki = k[at + i];
                for (int j = 0; j < D; j++) {
                    dk += G[i][j] * u[j] + ai * before[i][j] * dr[j];
                    G[i][j] += ki * dr[j];
                    da += G[i][j] * before[i][j];
                    G[i][j] *= ai;
                }
                gk[at + i] = dk;
                ga[at + i] = da;
            }
        }
    }
}
