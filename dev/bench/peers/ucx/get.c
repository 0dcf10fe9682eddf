/* Reads of another process's memory by UCX's upper layer, for `src/peers/ucx/gets.rs`:
 *
 *     get owner                               registers memory and prints the words with which to reach it
 *     get reader <worker> <rkey> <address>    reads that memory
 *
 * Both take orders, a line each. The owner sets the values of a round, whose number is the line, and does nothing else
 * until the next line: it runs no progress. The reader gets `<bytes> <round> <warm> <batches> <size>`, and prints the
 * nanoseconds of each batch. `src/values.rs` says which values there are. Each get has ended before the next begins.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#define NUMBERS 64
#define KIB 1024
#define HEAD 8
#define STEP 61
#define BYTES (NUMBERS * sizeof(uint64_t) + KIB)

static ucp_context_h context;
static ucp_worker_h worker;

static void give_up(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s failed: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void start(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
    check(ucp_init(&params, NULL, &context), "ucp_init");
    ucp_worker_params_t mode = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    check(ucp_worker_create(context, &mode, &worker), "ucp_worker_create");
}

static void print_hex(const void *bytes, size_t length)
{
    for (size_t at = 0; at < length; at++)
        printf("%02x", ((const unsigned char *)bytes)[at]);
    putchar(' ');
}

static void *read_hex(const char *text)
{
    size_t length = strlen(text) / 2;
    unsigned char *bytes = malloc(length + 1);
    for (size_t at = 0; at < length; at++) {
        unsigned byte = 0;
        if (sscanf(text + 2 * at, "%2x", &byte) != 1)
            give_up("an argument is no hexadecimal number");
        bytes[at] = (unsigned char)byte;
    }
    return bytes;
}

static unsigned char byte_at(size_t at, uint64_t round)
{
    return (unsigned char)(at * 7 + at / 256 + round);
}

static void own(void)
{
    ucp_mem_map_params_t wanted = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = BYTES,
        .flags = UCP_MEM_MAP_ALLOCATE,
    };
    ucp_mem_h memory;
    check(ucp_mem_map(context, &wanted, &memory), "ucp_mem_map");
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    check(ucp_mem_query(memory, &attributes), "ucp_mem_query");

    ucp_address_t *address;
    size_t address_length, rkey_length;
    void *rkey;
    check(ucp_worker_get_address(worker, &address, &address_length), "ucp_worker_get_address");
    check(ucp_rkey_pack(context, memory, &rkey, &rkey_length), "ucp_rkey_pack");
    print_hex(address, address_length);
    print_hex(rkey, rkey_length);
    printf("%llu\n", (unsigned long long)(uintptr_t)attributes.address);
    fflush(stdout);

    volatile uint64_t *numbers = attributes.address;
    volatile unsigned char *bytes = (volatile unsigned char *)(numbers + NUMBERS);
    unsigned long long round;
    while (scanf("%llu", &round) == 1) {
        for (size_t at = 0; at < KIB; at++)
            bytes[at] = at < HEAD ? (unsigned char)(round >> 8 * at) : byte_at(at, round);
        for (size_t at = 0; at < NUMBERS; at++)
            numbers[at] = (uint64_t)round << 16 | (at * 21 + 13) % NUMBERS;
        puts("set");
        fflush(stdout);
    }
}

struct reader {
    ucp_ep_h endpoint;
    ucp_rkey_h rkey;
    uint64_t address;
    uint64_t round;
    /* The number that is read next, and the byte that was compared last. */
    size_t number, byte;
    union {
        uint64_t number;
        unsigned char bytes[KIB];
    } found;
};

/* Reads from an offset, and waits for the bytes. */
static inline void get(struct reader *reader, size_t offset, size_t length)
{
    static const ucp_request_param_t plain = {0};
    ucs_status_ptr_t request = ucp_get_nbx(
        reader->endpoint, &reader->found, length, reader->address + offset, reader->rkey, &plain);
    if (request == NULL)
        return;
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "ucp_get_nbx");
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
    check(status, "a get");
}

static inline void read_number(struct reader *reader)
{
    get(reader, reader->number * sizeof(uint64_t), sizeof(uint64_t));
    if (reader->found.number >> 16 != reader->round)
        give_up("a get has found another number");
    reader->number = reader->found.number & (NUMBERS - 1);
}

static inline void read_bytes(struct reader *reader)
{
    get(reader, NUMBERS * sizeof(uint64_t), KIB);
    reader->byte = HEAD + (reader->byte - HEAD + STEP) % (KIB - HEAD);
    unsigned char found = reader->found.bytes[reader->byte];
    if (reader->found.number != reader->round || found != byte_at(reader->byte, reader->round))
        give_up("a get has found other bytes");
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t timed(struct reader *reader, unsigned length, unsigned count)
{
    uint64_t begin = now();
    if (length == KIB) {
        for (unsigned at = 0; at < count; at++)
            read_bytes(reader);
    } else {
        for (unsigned at = 0; at < count; at++)
            read_number(reader);
    }
    return now() - begin;
}

static void read_all(char **words)
{
    struct reader reader = {.address = strtoull(words[2], NULL, 10), .byte = HEAD};
    ucp_ep_params_t to = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = read_hex(words[0]),
    };
    check(ucp_ep_create(worker, &to, &reader.endpoint), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(reader.endpoint, read_hex(words[1]), &reader.rkey), "ucp_ep_rkey_unpack");
    unsigned long long round;
    unsigned length, warm, batches, size;
    while (scanf("%u %llu %u %u %u", &length, &round, &warm, &batches, &size) == 5) {
        reader.round = round;
        timed(&reader, length, warm);
        uint64_t *took = calloc(batches + 1, sizeof(uint64_t));
        for (unsigned at = 0; at < batches; at++)
            took[at] = timed(&reader, length, size);
        for (unsigned at = 0; at < batches; at++)
            printf("%llu ", (unsigned long long)took[at]);
        putchar('\n');
        fflush(stdout);
        free(took);
    }
}

int main(int count, char **words)
{
    start();
    if (count == 2 && strcmp(words[1], "owner") == 0)
        own();
    else if (count == 5 && strcmp(words[1], "reader") == 0)
        read_all(words + 2);
    else
        give_up("usage: get owner | get reader <worker> <rkey> <address>");
    return 0;
}
