// The twin of `sabani bench coll` for MPI: the same definition of time, the same lines of JSON.
// See crates/sabani-cli/src/bench/coll/measure.rs, which says why.
//
// coll --collectives bcast,gather --sizes 64,1024 --seconds 0.05

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PROBES = 5,
    LEAST_LOOP = 8,
    MOST_LOOP = 20000,
    LEAST_STARTS = 8,
    MOST_STARTS = 500,
};
static const int64_t START_NS = 2000000;
static const int64_t PAUSE_NS = 200000;
static const int64_t SPIN_NS = 50000;

static int rank, ranks;
static int may_spin;
static float *in, *out;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until(int64_t at) {
    int64_t until = may_spin ? at - SPIN_NS : at;
    if (until > now_ns()) {
        struct timespec wake = {until / 1000000000LL, until % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
    while (now_ns() < at) {
    }
}

static void die(const char *why) {
    fprintf(stderr, "coll: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void call(const char *collective, int count, int root) {
    MPI_Comm world = MPI_COMM_WORLD;
    if (!strcmp(collective, "barrier")) {
        MPI_Barrier(world);
    } else if (!strcmp(collective, "bcast")) {
        MPI_Bcast(in, count, MPI_FLOAT, root, world);
    } else if (!strcmp(collective, "reduce")) {
        MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, root, world);
    } else if (!strcmp(collective, "allreduce")) {
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, world);
    } else if (!strcmp(collective, "gather")) {
        MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, world);
    } else if (!strcmp(collective, "scatter")) {
        MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, world);
    } else if (!strcmp(collective, "allgather")) {
        MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, world);
    } else if (!strcmp(collective, "reduce_scatter")) {
        MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, world);
    } else if (!strcmp(collective, "alltoall")) {
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, world);
    } else if (!strcmp(collective, "scan")) {
        MPI_Scan(in, out, count, MPI_FLOAT, MPI_SUM, world);
    } else if (!strcmp(collective, "exscan")) {
        MPI_Exscan(in, out, count, MPI_FLOAT, MPI_SUM, world);
    } else {
        die("no such collective");
    }
}

// Nanoseconds for each of so many calls with rotating root, at the slowest rank.
static double loop_ns(const char *collective, int count, int calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t begun = now_ns();
    for (int i = 0; i < calls; i++) {
        call(collective, count, i % ranks);
    }
    double mine = (double)(now_ns() - begun) / calls, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int clamp(double value, int least, int most) {
    return value < least ? least : value > most ? most : (int)value;
}

static int ascending(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

// For each start: entry, exit, and whether this rank came too late.
enum { ENTRY, EXIT, LATE, FIELDS };

// Spans from the first entry to the last exit, ascending; returns how many.
static int spans(const int64_t *all, int starts, int64_t *spans) {
    int kept = 0;
    for (int i = 0; i < starts; i++) {
        int64_t entry = INT64_MAX, exit = 0, late = 0;
        for (int r = 0; r < ranks; r++) {
            const int64_t *times = all + ((size_t)r * starts + i) * FIELDS;
            entry = times[ENTRY] < entry ? times[ENTRY] : entry;
            exit = times[EXIT] > exit ? times[EXIT] : exit;
            late |= times[LATE];
        }
        if (!late) {
            spans[kept++] = exit - entry;
        }
    }
    qsort(spans, kept, sizeof *spans, ascending);
    return kept;
}

static void measure(const char *collective, int size, double seconds) {
    int count = size / sizeof *in;
    loop_ns(collective, count, ranks > PROBES ? ranks : PROBES);
    double guess = loop_ns(collective, count, PROBES);
    int calls = clamp(seconds / 2 * 1e9 / guess, LEAST_LOOP, MOST_LOOP);
    double loop = loop_ns(collective, count, calls);

    int64_t window = (int64_t)(2 * loop) + PAUSE_NS;
    int starts = clamp(seconds / 2 * 1e9 / window, LEAST_STARTS, MOST_STARTS);
    int64_t *times = malloc((size_t)starts * FIELDS * sizeof *times);
    int64_t *all = malloc((size_t)ranks * starts * FIELDS * sizeof *all);
    if (!times || !all) {
        die("no memory");
    }
    int64_t begin = now_ns() + START_NS;
    MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < starts; i++) {
        int64_t at = begin + i * window;
        int64_t *mine = times + (size_t)i * FIELDS;
        mine[LATE] = now_ns() > at;
        sleep_until(at);
        mine[ENTRY] = now_ns();
        call(collective, count, 0);
        mine[EXIT] = now_ns();
    }
    int fields = starts * FIELDS;
    MPI_Gather(times, fields, MPI_INT64_T, all, fields, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        int kept = spans(all, starts, times);
        double median = kept ? times[kept / 2] / 1e3 : loop / 1e3;
        printf("{\"collective\":\"%s\",\"ranks\":%d,\"size_bytes\":%d,\"us_p50\":%.3f,\"loop_us\":%.3f,\"starts\":%d,\"calls\":%d}\n",
               collective, ranks, size, median, loop / 1e3, kept, calls);
        fflush(stdout);
    }
    free(times);
    free(all);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *names[] = {"--collectives", "--sizes", "--seconds"};
    for (int i = 0; i < 3; i++) {
        if (argc != 7 || strcmp(argv[1 + 2 * i], names[i])) {
            die("usage: coll --collectives NAMES --sizes BYTES --seconds SECONDS");
        }
    }
    char *collectives = argv[2];
    const char *all_sizes = argv[4];
    double seconds = atof(argv[6]);
    prctl(PR_SET_TIMERSLACK, 1);
    may_spin = ranks <= sysconf(_SC_NPROCESSORS_ONLN);
    for (char *next, *collective = strtok_r(collectives, ",", &next); collective;
         collective = strtok_r(NULL, ",", &next)) {
        char *sizes = strdup(all_sizes), *at;
        for (char *word = strtok_r(sizes, ",", &at); word; word = strtok_r(NULL, ",", &at)) {
            int size = atoi(word);
            in = malloc((size_t)ranks * size);
            out = calloc(ranks, size);
            if (!in || !out) {
                die("no memory");
            }
            // As Sabani's twin does: memory that was never written would be one page of zeros, which no cache misses.
            for (size_t i = 0; i < (size_t)ranks * size / sizeof *in; i++) {
                in[i] = 1;
            }
            measure(collective, size, seconds);
            free(in);
            free(out);
        }
        free(sizes);
    }
    MPI_Finalize();
    return 0;
}
