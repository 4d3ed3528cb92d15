// Closed-loop load generator for HTTP/1.1 with keep-alive: one thread, epoll.
//
// usage: loadgen HOST PORT PATH BODY_FILE CONNECTIONS SECONDS [HEADER...]
//
// Each connection sends the same request again as soon as it is answered. Every latency is kept, so
// percentiles are exact; they are not corrected for coordinated omission. One line of JSON comes
// out. It ends at the latest 15 s after SECONDS, counting what is still unanswered. Of large answers
// only the beginning is kept.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_HEAD = 8192,
    MAX_KEPT = 16384,
    SCRATCH = 1 << 20,
    TAIL = 5,
    MAX_EVENTS = 256,
    MAX_FAILURES = 100000,
    SAMPLE = 200,
};
static const double GRACE_S = 15;

struct connection {
    int fd;
    int waiting;   // A request is out and its answer is not in.
    double began;  // When that request was sent.
    size_t sent;   // Bytes of that request that are sent.
    long length;   // Bytes of the answer so far.
    int kept;      // Bytes of it that are in `answer`.
    int head;      // Bytes of its head; 0 until the head is in.
    long expected; // Bytes of the whole answer; -1 where the head does not say.
    int chunked;
    int status;
    char tail[TAIL]; // The last bytes of the answer.
    char answer[MAX_KEPT + 1];
};

static char scratch[SCRATCH];
static char *request;
static size_t request_length;
static struct sockaddr_in server;
static int poller;

static float *latencies_ms;
static size_t latency_count, latency_room;
static long connection_errors, http_errors, reconnections, unanswered;
static int first_bad_status;
static char sample[SAMPLE + 1];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int open_connection(struct connection *c) {
    int on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0)
        return -1;
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0) {
        close(c->fd);
        connection_errors++;
        return -1;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    return epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
}

// Sends as much of the request as the socket takes; epoll tells when it takes more.
static void send_more(struct connection *c) {
    while (c->sent < request_length) {
        ssize_t n = send(c->fd, request + c->sent, request_length - c->sent, MSG_NOSIGNAL);
        if (n >= 0) {
            c->sent += n;
        } else if (errno == EAGAIN) {
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
            epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
            return;
        } else {
            // The closed connection shows up in epoll, which opens another.
            connection_errors++;
            return;
        }
    }
}

static void send_request(struct connection *c) {
    c->length = c->kept = c->head = c->chunked = c->status = 0;
    c->sent = 0;
    c->expected = -1;
    c->waiting = 1;
    c->began = now();
    send_more(c);
}

// Takes what has come: the beginning is kept, of the rest only the last bytes. Gives what recv gave.
static ssize_t receive(struct connection *c) {
    int room = MAX_KEPT - c->kept;
    char *into = room ? c->answer + c->kept : scratch;
    ssize_t n = recv(c->fd, into, room ? room : SCRATCH, 0);
    if (n <= 0)
        return n;
    if (room)
        c->kept += n;
    c->answer[c->kept] = 0;
    c->length += n;
    if (n >= TAIL) {
        memcpy(c->tail, into + n - TAIL, TAIL);
    } else {
        memmove(c->tail, c->tail + n, TAIL - n);
        memcpy(c->tail + TAIL - n, into, n);
    }
    return n;
}

// Reads the head, once it is all there: the status, and how to tell the answer's end.
static void read_head(struct connection *c) {
    char *end = memmem(c->answer, c->kept, "\r\n\r\n", 4);
    if (!end)
        return;
    c->head = end - c->answer + 4;
    c->status = atoi(c->answer + strlen("HTTP/1.1 "));
    for (char *line = c->answer; line && line < end;) {
        if (!strncasecmp(line, "content-length:", 15))
            c->expected = c->head + atol(line + 15);
        else if (!strncasecmp(line, "transfer-encoding:", 18))
            c->chunked = 1;
        line = memmem(line, end + 2 - line, "\r\n", 2);
        if (line)
            line += 2;
    }
}

static int is_complete(struct connection *c) {
    if (!c->head)
        return 0;
    if (c->expected >= 0)
        return c->length >= c->expected;
    if (c->chunked)
        return c->length >= TAIL && !memcmp(c->tail, "0\r\n\r\n", TAIL);
    return 1;
}

static void keep_latency(double ms) {
    if (latency_count == latency_room) {
        latency_room = latency_room ? latency_room * 2 : 1 << 20;
        latencies_ms = realloc(latencies_ms, latency_room * sizeof *latencies_ms);
        if (!latencies_ms)
            abort();
    }
    latencies_ms[latency_count++] = ms;
}

// Keeps the first good answer, in characters that need no escape in JSON.
static void keep_sample(struct connection *c) {
    int i;
    for (i = 0; i < SAMPLE && c->head + i < c->kept; i++) {
        unsigned char byte = c->answer[c->head + i];
        sample[i] = byte < 32 || byte > 126 || byte == '"' || byte == '\\' ? '\'' : byte;
    }
    sample[i] = 0;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(double q) {
    return latency_count ? latencies_ms[(size_t)((latency_count - 1) * q)] : 0;
}

static int read_request(int count, char **words) {
    FILE *file = fopen(words[4], "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(words[4]);
        return -1;
    }
    size_t length = ftell(file);
    rewind(file);
    request = malloc(length + MAX_HEAD);
    if (!request)
        abort();
    int n = snprintf(request, MAX_HEAD,
                     "POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n",
                     words[3], words[1], words[2], length);
    for (int i = 7; i < count && n < MAX_HEAD; i++)
        n += snprintf(request + n, MAX_HEAD - n, "%s\r\n", words[i]);
    if (n + 2 >= MAX_HEAD) {
        fprintf(stderr, "the headers are longer than %d bytes\n", MAX_HEAD);
        return -1;
    }
    memcpy(request + n, "\r\n", 2);
    request_length = n + 2 + fread(request + n + 2, 1, length, file);
    fclose(file);
    return request_length == n + 2 + length ? 0 : -1;
}

int main(int count, char **words) {
    if (count < 7) {
        fprintf(stderr, "usage: loadgen HOST PORT PATH BODY_FILE CONNECTIONS SECONDS [HEADER...]\n");
        return 2;
    }
    int connections = atoi(words[5]);
    double seconds = atof(words[6]);
    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(words[2]));
    if (connections < 1 || inet_pton(AF_INET, words[1], &server.sin_addr) != 1 ||
        read_request(count, words))
        return 2;

    poller = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    if (!all)
        abort();
    for (int i = 0; i < connections; i++)
        if (open_connection(&all[i])) {
            fprintf(stderr, "connect failed\n");
            return 3;
        }

    double start = now(), end = start + seconds, last_answer = start;
    long in_window = 0;
    int live = connections;
    for (int i = 0; i < connections; i++)
        send_request(&all[i]);
    while (live > 0) {
        struct epoll_event events[MAX_EVENTS];
        if (now() > end + GRACE_S) {
            unanswered = live;
            break;
        }
        int ready = epoll_wait(poller, events, MAX_EVENTS, 200);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->sent < request_length && events[i].events & EPOLLOUT) {
                send_more(c);
                if (c->sent == request_length) {
                    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
                    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
                }
            }
            if (!(events[i].events & ~EPOLLOUT))
                continue;
            ssize_t n = receive(c);
            if (n < 0 && errno == EAGAIN)
                continue;
            if (n <= 0) {
                close(c->fd);
                connection_errors += c->waiting;
                c->waiting = 0;
                reconnections++;
                if (now() < end && connection_errors < MAX_FAILURES && !open_connection(c))
                    send_request(c);
                else
                    live--;
                continue;
            }
            if (!c->head)
                read_head(c);
            if (!c->head && c->kept == MAX_KEPT) {
                fprintf(stderr, "a head is longer than %d bytes\n", MAX_KEPT);
                return 4;
            }
            if (!is_complete(c))
                continue;

            double done = now();
            c->waiting = 0;
            if (c->status / 100 == 2) {
                keep_latency((done - c->began) * 1e3);
                in_window += done <= end;
                last_answer = done;
                if (!sample[0])
                    keep_sample(c);
            } else {
                http_errors++;
                if (!first_bad_status)
                    first_bad_status = c->status;
                // A server that refuses at once would otherwise be asked in a tight loop.
                if (connections <= 8)
                    usleep(1000);
            }
            if (done < end)
                send_request(c);
            else
                live--;
        }
    }

    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    double sum = 0;
    for (size_t i = 0; i < latency_count; i++)
        sum += latencies_ms[i];
    qsort(latencies_ms, latency_count, sizeof *latencies_ms, by_size);
    printf("{\"conc\":%d,\"secs\":%.3f,\"ok\":%zu,\"rps\":%.2f,\"mean_ms\":%.3f,\"p50_ms\":%.3f,"
           "\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f,\"min_ms\":%.3f,"
           "\"http_err\":%ld,\"first_bad\":%d,\"conn_err\":%ld,\"reconn\":%ld,\"timeouts\":%ld,"
           "\"gen_cpu_s\":%.3f,\"sample\":\"%s\"}\n",
           connections, last_answer - start, latency_count, in_window / seconds,
           latency_count ? sum / latency_count : 0, percentile(.5), percentile(.9),
           percentile(.99), percentile(.999), percentile(1), percentile(0), http_errors,
           first_bad_status, connection_errors, reconnections, unanswered, cpu, sample);
    return 0;
}
