// A PJRT plugin that calls itself a GPU: XLA's CPU client, with what crosses its border
// counted.
//
// It stands between JAX and another plugin, STANDIN_CLIENT, and hands every call on,
// but says that the platform is STANDIN_PLATFORM, that the host cannot read its memory,
// and never takes the host's memory as its own.
//
// Functions of the C API are known by their place in its table, which only ever grows.
// Each place is checked when the plugin is loaded: a function refuses an argument of
// size 0 by its own name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void* (*Function)(void*);  // returns an error, or NULL

enum { MOST_FUNCTIONS = 512, MOST_DEVICES = 64 };

typedef struct {
  size_t size;
  void* extensions;
  struct {
    size_t size;
    void* extensions;
    int major, minor;
  } version;
  Function functions[MOST_FUNCTIONS];
} Api;

static const Api* client;
static Api shown;

// ---- what is counted, and delays in microseconds
// ------------------------------------------------

atomic_long to_device, to_device_bytes, to_host, to_host_bytes, between_devices;
atomic_long executions, compilations;
atomic_int to_device_delay, to_host_delay;

// ---- functions of the client
// --------------------------------------------------------------------

enum { ERROR_DESTROY, ERROR_MESSAGE };

typedef struct {
  size_t size;
  void *extensions, *error;
  const char* text;
  size_t length;
} Message;

typedef struct {
  size_t size;
  void *extensions, *error;
} OfError;

static void destroy(void* error) {
  OfError args = {sizeof args, NULL, error};
  client->functions[ERROR_DESTROY](&args);
}

// The caller frees it.
static char* text_of(void* error) {
  Message args = {sizeof args, NULL, error, NULL, 0};
  client->functions[ERROR_MESSAGE](&args);
  return strndup(args.text, args.length);
}

static Function in_client(const char* name, int place) {
  size_t empty[64] = {0};
  char expected[128];
  snprintf(expected, sizeof expected, "PJRT_%s", name);
  Function function = client->functions[place];
  void* error = function ? function(empty) : NULL;
  char* refusal = error ? text_of(error) : NULL;
  if (!refusal || !strstr(refusal, expected)) {
    fprintf(stderr, "standin: place %d of the C API (%d.%d) is not %s: %s\n", place,
            client->version.major, client->version.minor, expected, refusal);
    abort();
  }
  destroy(error);
  free(refusal);
  return function;
}

// ---- the platform's name
// ------------------------------------------------------------------------

static const char* platform;
static char kind[64];

typedef struct {
  size_t size;
  void *extensions, *subject;
  const char* text;
  size_t length;
} Name;

static Function client_platform, topology_platform, device_kind;

static void* named(Function function, Name* args, const char* name) {
  void* error = function(args);
  if (!error) {
    args->text = name;
    args->length = strlen(name);
  }
  return error;
}

static void* show_client_platform(void* args) {
  return named(client_platform, args, platform);
}
static void* show_topology_platform(void* args) {
  return named(topology_platform, args, platform);
}
static void* show_kind(void* args) { return named(device_kind, args, kind); }

typedef struct {
  size_t size;
  void *extensions, *device;
  int id;
} Id;

static Function device_id, device_string, device_debug_string;

// JAX shows these: one for repr, and one for str.
static void* shown_as(Function function, void* given, const char* format, char* text) {
  enum { LENGTH = 32 };
  Name* args = given;
  Id id = {sizeof id, NULL, args->subject, 0};
  void* error = device_id(&id);
  if (error) return error;
  char* mine = text + id.id % MOST_DEVICES * LENGTH;
  snprintf(mine, LENGTH, format, id.id);
  return named(function, args, mine);
}

static void* show_device(void* args) {
  static char texts[MOST_DEVICES * 32];
  return shown_as(device_string, args, "StandinDevice(id=%d)", texts);
}

static void* show_device_shortly(void* args) {
  static char texts[MOST_DEVICES * 32];
  return shown_as(device_debug_string, args, "standin:%d", texts);
}

// ---- memory
// -------------------------------------------------------------------------------------

enum {
  IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1,
  IMMUTABLE_ZERO_COPY = 2,
  MUTABLE_ZERO_COPY = 3
};

typedef struct {
  size_t size;
  void *extensions, *client;
  const void* data;
  int type;
  const int64_t* dimensions;
  size_t rank;
  const int64_t* strides;
  size_t number_of_strides;
  int semantics;
} FromHost;

typedef struct {
  size_t size;
  void *extensions, *buffer, *layout, *destination;
  size_t destination_size;
  void* event;
} ToHost;

typedef struct {
  size_t size;
  void *extensions, *buffer;
  uint8_t is_on_cpu;
} IsOnCpu;

static Function buffer_from_host, buffer_to_host, buffer_is_on_cpu, copy_to_device,
    copy_to_memory;
static Function event_create, event_set, event_on_ready, event_destroy;

// Bytes of an element, by the number of its type in the C API; less than a byte counts
// as one.
static size_t width(int type) {
  static const size_t widths[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16};
  return type < (int)(sizeof widths / sizeof *widths) ? widths[type] : 1;
}

static void* from_host(void* given) {
  FromHost* args = given;
  long bytes = (long)width(args->type);
  for (size_t i = 0; i < args->rank; ++i) bytes *= args->dimensions[i];
  ++to_device;
  to_device_bytes += bytes;
  if (args->semantics == IMMUTABLE_ZERO_COPY || args->semantics == MUTABLE_ZERO_COPY)
    args->semantics = IMMUTABLE_UNTIL_TRANSFER_COMPLETES;
  // As pageable memory is, it is read before the call returns.
  if (to_device_delay) usleep((useconds_t)to_device_delay);
  return buffer_from_host(given);
}

typedef struct {
  size_t size;
  void *extensions, *event;
} OfEvent;

typedef struct {
  size_t size;
  void *extensions, *event;
  void (*callback)(void* error, void* argument);
  void* argument;
} OnReady;

typedef struct {
  size_t size;
  void *extensions, *event;
  int code;
  const char* message;
  size_t length;
} SetEvent;

typedef struct {
  void* shown;  // the event that JAX has
  char* failure;
} Arrival;

static void* arrive(void* given) {
  Arrival* arrival = given;
  enum { INTERNAL = 13 };
  if (to_host_delay && !arrival->failure) usleep((useconds_t)to_host_delay);
  SetEvent set = {sizeof set, NULL, arrival->shown, 0, NULL, 0};
  if (arrival->failure) {
    set.code = INTERNAL;
    set.message = arrival->failure;
    set.length = strlen(arrival->failure);
  }
  void* error = event_set(&set);
  if (error) destroy(error);
  free(arrival->failure);
  free(arrival);
  return NULL;
}

static void has_arrived(void* error, void* given) {
  Arrival* arrival = given;
  if (error) {
    arrival->failure = text_of(error);
    destroy(error);
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, arrive, arrival)) abort();
  pthread_detach(thread);
}

// JAX gets an event of ours in place of the client's, which is set a while after that.
static void* delayed(ToHost* args) {
  OfEvent made = {sizeof made, NULL, NULL};
  void* error = event_create(&made);
  if (error) return error;
  Arrival* arrival = calloc(1, sizeof *arrival);
  arrival->shown = made.event;
  OnReady wait = {sizeof wait, NULL, args->event, has_arrived, arrival};
  error = event_on_ready(&wait);
  if (error) return error;
  OfEvent done = {sizeof done, NULL, args->event};
  error = event_destroy(&done);
  args->event = made.event;
  return error;
}

static void* to_host_buffer(void* given) {
  ToHost* args = given;
  void* error = buffer_to_host(given);
  // Without a destination it only asks for the size.
  if (error || !args->destination) return error;
  ++to_host;
  to_host_bytes += (long)args->destination_size;
  return to_host_delay ? delayed(args) : NULL;
}

static void* is_on_cpu(void* given) {
  void* error = buffer_is_on_cpu(given);
  if (!error) ((IsOnCpu*)given)->is_on_cpu = 0;
  return error;
}

static void* counted_copy_to_device(void* args) {
  ++between_devices;
  return copy_to_device(args);
}

static void* counted_copy_to_memory(void* args) {
  ++between_devices;
  return copy_to_memory(args);
}

// ---- programs
// -----------------------------------------------------------------------------------

static Function execute_in_client, compile_in_client;

static void* execute(void* args) {
  ++executions;
  return execute_in_client(args);
}

static void* compile(void* args) {
  ++compilations;
  return compile_in_client(args);
}

// ---- the client
// ---------------------------------------------------------------------------------

typedef struct {
  size_t size;
  void* extensions;
  const char* name;
  size_t length;
  int type;
  union {
    int64_t number;
    const char* text;
  } value;
  size_t value_size;
} Option;

typedef struct {
  size_t size;
  void* extensions;
  const Option* options;
  size_t count;
} Create;

static Function create_client;

// JAX adds options that a CPU client does not know.
static void* create(void* given) {
  static const char* const known[] = {"cpu_device_count", "asynchronous"};
  Create* args = given;
  Option kept[2];
  size_t count = 0;
  for (size_t i = 0; i < args->count; ++i)
    for (size_t k = 0; k < 2; ++k)
      if (args->options[i].length == strlen(known[k]) &&
          !memcmp(args->options[i].name, known[k], args->options[i].length))
        kept[count++] = args->options[i];
  args->options = kept;
  args->count = count;
  return create_client(given);
}

// ---- handlers of custom calls
// -------------------------------------------------------------------

typedef struct Extension {
  size_t size;
  int type;
  struct Extension* next;
} Extension;

typedef struct {
  size_t size;
  const char* target;
  size_t target_length;
  void* handler;
  const char* platform;
  size_t platform_length;
  int traits;
} Registration;

typedef struct {
  Extension base;
  Function register_type, add_user_data, register_handler;
} FfiExtension;

// Register a handler of typed custom calls; return NULL, or what went wrong.
const char* register_handler(const char* target, void* handler) {
  enum { FFI = 5 };
  // The client looks handlers up for the platform that it is.
  static const char host[] = "Host";
  for (Extension* each = client->extensions; each; each = each->next) {
    if (each->type != FFI) continue;
    Registration args = {offsetof(Registration, traits) + sizeof(int),
                         target,
                         strlen(target),
                         handler,
                         host,
                         strlen(host),
                         0};
    void* error = ((FfiExtension*)each)->register_handler(&args);
    return error ? text_of(error) : NULL;
  }
  return "the client has no extension for custom calls";
}

// ---- the plugin
// ---------------------------------------------------------------------------------

static void replace(const char* name, int place, Function ours, Function* theirs) {
  *theirs = in_client(name, place);
  shown.functions[place] = ours;
}

const void* GetPjrtApi(void) {
  if (client) return &shown;
  platform = getenv("STANDIN_PLATFORM");
  if (!platform) platform = "cuda";
  snprintf(kind, sizeof kind, "Stand-in for %s", platform);
  void* library = dlopen(getenv("STANDIN_CLIENT"), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "standin: %s\n", dlerror());
    return NULL;
  }
  const Api* (*get)(void) = (const Api* (*)(void))dlsym(library, "GetPjrtApi");
  client = get();
  memcpy(&shown, client, client->size < sizeof shown ? client->size : sizeof shown);
  replace("Client_Create_Args", 10, create, &create_client);
  replace("Client_PlatformName_Args", 12, show_client_platform, &client_platform);
  replace("Client_Compile_Args", 20, compile, &compile_in_client);
  replace("Client_BufferFromHostBuffer_Args", 22, from_host, &buffer_from_host);
  replace("DeviceDescription_Kind_Args", 26, show_kind, &device_kind);
  replace("DeviceDescription_DebugString_Args", 27, show_device_shortly,
          &device_debug_string);
  replace("DeviceDescription_ToString_Args", 28, show_device, &device_string);
  replace("LoadedExecutable_Execute_Args", 55, execute, &execute_in_client);
  replace("Buffer_CopyToDevice_Args", 69, counted_copy_to_device, &copy_to_device);
  replace("Buffer_ToHostBuffer_Args", 70, to_host_buffer, &buffer_to_host);
  replace("Buffer_IsOnCpu_Args", 71, is_on_cpu, &buffer_is_on_cpu);
  replace("TopologyDescription_PlatformName_Args", 84, show_topology_platform,
          &topology_platform);
  replace("Buffer_CopyToMemory_Args", 92, counted_copy_to_memory, &copy_to_memory);
  device_id = in_client("DeviceDescription_Id_Args", 23);
  event_destroy = in_client("Event_Destroy", 5);
  event_on_ready = in_client("Event_OnReady", 9);
  event_create = in_client("Event_Create", 126);
  event_set = in_client("Event_Set", 127);
  return &shown;
}
