/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The delta-send filter: a disk goes in, the wire export of a pass comes
 * out (see nbdsync-formats(5)).
 *
 * What can be checked is checked in get_ready, so that the user sees the
 * message on his terminal: parameters, the session file, the map (read
 * whole, since a context that is missing shows up only then) and the state
 * of the bitmap.  After the fork the source is opened once, on a context
 * that all threads and connections share, and the plan is made; it is
 * fixed from then on, since the size of the export follows from it.
 * Connections have no context of their own: no callback uses its 'next'.
 *
 * The parts: map (what is dirty) -> planner -> plan -> pipeline (builders,
 * frames) -> here; session (frame 0), stats, bitmap-check beside them.
 *
 * State: config, until get_ready; then source, pipeline and stats, made in
 * after_fork by the main thread before there are connections, ended in
 * cleanup when there are none any more.  No locks here.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <nbdkit-filter.h>

#include "bitmap-check.h"
#include "cleanup.h"
#include "fault.h"
#include "log.h"
#include "map.h"
#include "map-file.h"
#include "pipeline.h"
#include "planner.h"
#include "session.h"
#include "stats.h"

#define THREADS_MAX 64
#define PREFERRED_BYTES 4096
#define REQUEST_MAX_BYTES (UINT32_C (32) << 20)

static struct {
  struct map_source map;
  bool local;                   /* only what the top image itself holds */
  const char *map_uri;
  const char *qmp, *node;
  const char *extents_file, *session_file;
  char *stats_file;
  uint32_t batch_bytes;
  struct pipeline_config pipeline;
} config = {
  .batch_bytes = 4 << 20,
  .pipeline = { .buffer_bytes = 256 << 20, .level = LEVEL_AUTO },
};

static bool has_map;
static struct runs map;
static uint64_t map_size;       /* of the export it is of; 0: from a file */
static struct session_record record;

static struct source source;
static struct pipeline *pipeline;
static struct stats *stats;

static void
send_log (enum log_level level, const char *message)
{
  if (level == LOG_LEVEL_ERROR)
    nbdkit_error ("delta-send: %s", message);
  else
    nbdkit_debug ("delta-send: %s", message);
}

static void
send_load (void)
{
  log_set_sink (send_log);
}

static void
send_unload (void)
{
  session_record_reset (&record);
  runs_reset (&map);
  free (config.stats_file);
}

static int
parse_size (const char *key, const char *value, uint64_t min, uint64_t max,
            uint64_t *ret)
{
  int64_t n = nbdkit_parse_size (value);

  if (n == -1)
    return -1;
  if ((uint64_t) n < min || (uint64_t) n > max) {
    log_error ("%s: must be from %" PRIu64 "K to %" PRIu64 "K", key,
               min >> 10, max >> 10);
    return -1;
  }
  *ret = n;
  return 0;
}

static int
parse_level (const char *value)
{
  int level;

  if (strcmp (value, "auto") == 0) {
    config.pipeline.level = LEVEL_AUTO;
    return 0;
  }
  if (nbdkit_parse_int ("delta-level", value, &level) == -1)
    return -1;
  if (level < LEVEL_MIN || level > LEVEL_MAX) {
    log_error ("delta-level: must be auto or from %d to %d",
               LEVEL_MIN, LEVEL_MAX);
    return -1;
  }
  config.pipeline.level = level;
  return 0;
}

static int
parse_threads (const char *value)
{
  unsigned n;

  if (nbdkit_parse_unsigned ("delta-threads", value, &n) == -1)
    return -1;
  if (n < 1 || n > THREADS_MAX) {
    log_error ("delta-threads: must be from 1 to %d", THREADS_MAX);
    return -1;
  }
  config.pipeline.threads = n;
  return 0;
}

static int
parse_bool (const char *value, bool *ret)
{
  int r = nbdkit_parse_bool (value);

  if (r == -1)
    return -1;
  *ret = r;
  return 0;
}

/* Keys of the nbd plugin tell where the map is, unless delta-map-uri does;
 * they are not ours and are passed on.
 */
static void
note_nbd_key (const char *key, const char *value)
{
  if (strcmp (key, "uri") == 0)
    config.map.uri = value;
  else if (strcmp (key, "socket") == 0)
    config.map.socket = value;
  else if (strcmp (key, "hostname") == 0)
    config.map.host = value;
  else if (strcmp (key, "port") == 0)
    config.map.port = value;
  else if (strcmp (key, "export") == 0)
    config.map.export = value;
}

static int
send_config (nbdkit_next_config *next, nbdkit_backend *nxdata,
             const char *key, const char *value)
{
  uint64_t n;

  if (strcmp (key, "delta-bitmap") == 0)
    config.map.bitmap = value;
  else if (strcmp (key, "delta-local") == 0)
    return parse_bool (value, &config.local);
  else if (strcmp (key, "delta-map-uri") == 0)
    config.map_uri = value;
  else if (strcmp (key, "delta-extents") == 0)
    config.extents_file = value;
  else if (strcmp (key, "delta-qmp") == 0)
    config.qmp = value;
  else if (strcmp (key, "delta-node") == 0)
    config.node = value;
  else if (strcmp (key, "delta-batch") == 0) {
    if (parse_size (key, value, BATCH_MIN_BYTES, BATCH_MAX_BYTES, &n) == -1)
      return -1;
    config.batch_bytes = n;
  }
  else if (strcmp (key, "delta-buffer") == 0)
    return parse_size (key, value, 1 << 20, UINT64_C (1) << 50,
                       &config.pipeline.buffer_bytes);
  else if (strcmp (key, "delta-threads") == 0)
    return parse_threads (value);
  else if (strcmp (key, "delta-level") == 0)
    return parse_level (value);
  else if (strcmp (key, "delta-session") == 0)
    config.session_file = value;
  else if (strcmp (key, "delta-stats") == 0) {
    free (config.stats_file);
    config.stats_file = nbdkit_absolute_path (value);
    if (!config.stats_file)
      return -1;
  }
  else {
    note_nbd_key (key, value);
    return next (nxdata, key, value);
  }
  return 0;
}

/* Do the parameters of the map fit together? */
static int
check_map_config (void)
{
  bool by_nbd = config.map.bitmap || config.local;

  if (config.extents_file && by_nbd) {
    log_error ("delta-extents: not together with delta-bitmap or "
               "delta-local");
    return -1;
  }
  if (config.map_uri && !by_nbd) {
    log_error ("delta-map-uri: needs delta-bitmap or delta-local");
    return -1;
  }
  if (!config.qmp != !config.node || (config.qmp && !config.map.bitmap)) {
    log_error ("delta-qmp and delta-node: both are needed, and delta-bitmap");
    return -1;
  }
  if (config.map_uri)
    config.map.uri = config.map_uri;
  if (by_nbd && !config.map.uri && !config.map.socket && !config.map.host) {
    log_error ("delta-map-uri: needed, since it is not known where the map "
               "of the disk is");
    return -1;
  }
  has_map = by_nbd || config.extents_file;
  return 0;
}

static int
send_config_complete (nbdkit_next_config_complete *next,
                      nbdkit_backend *nxdata)
{
  if (config.pipeline.threads == 0) {
    long cpus = sysconf (_SC_NPROCESSORS_ONLN);

    /* Some threads wait for the disk while others compress. */
    config.pipeline.threads = cpus < 4 ? 4 : cpus > 16 ? 16 : cpus;
  }
  if (check_map_config () == -1 ||
      pipeline_check (&config.pipeline, config.batch_bytes) == -1)
    return -1;
  return next (nxdata);
}

#define send_config_help \
  "delta-bitmap=NAME     Send what this dirty bitmap calls dirty.\n" \
  "delta-local=yes       Send only what is allocated in the top image.\n" \
  "delta-map-uri=URI     Where to ask for these, if not at the disk.\n" \
  "delta-qmp=SOCKET      Check the bitmap at this monitor of QEMU.\n" \
  "delta-node=NODE       The node of the bitmap.\n" \
  "delta-extents=FILE    Send what this list of extents names.\n" \
  "delta-session=FILE    Members of the session record, JSON.\n" \
  "delta-batch=SIZE      Data in a frame (default: 4M).\n" \
  "delta-buffer=SIZE     Memory for frames (default: 256M).\n" \
  "delta-threads=N       Threads that read and compress.\n" \
  "delta-level=auto|N    Level of zstd, -7 to 19 (default: auto).\n" \
  "delta-stats=FILE      Write statistics there each second."

/* Read the map over NBD, and see that the bitmap is to be believed. */
static int
read_nbd_map (struct qmp *qmp)
{
  struct bitmap_state before, after;

  if (qmp && bitmap_check_state (qmp, config.node, config.map.bitmap,
                                 &before) == -1)
    return -1;
  config.map.layers = config.local ? 1 : 0;
  if (config.local && qmp) {
    /* The count is of the whole bitmap, so it is read by itself first. */
    struct map_source whole = config.map;
    struct runs runs = { 0 };
    int r;

    whole.layers = 0;
    r = map_read (&whole, &runs, &map_size);
    if (r == 0)
      r = bitmap_check_state (qmp, config.node, config.map.bitmap, &after);
    if (r == 0)
      r = bitmap_check_count (config.map.bitmap, runs.total,
                              runs.end == map_size, map_size,
                              &before, &after);
    runs_reset (&runs);
    if (r == -1)
      return -1;
  }
  if (map_read (&config.map, &map, &map_size) == -1)
    return -1;
  if (!qmp)
    return 0;
  record.granularity = before.granularity;
  if (config.local)
    return 0;
  if (bitmap_check_state (qmp, config.node, config.map.bitmap,
                          &after) == -1)
    return -1;
  return bitmap_check_count (config.map.bitmap, map.total,
                             map.end == map_size, map_size, &before, &after);
}

static int
read_map (void)
{
  struct qmp *qmp = NULL;
  int r;

  if (config.extents_file)
    return map_read_file (config.extents_file, &map);
  if (config.qmp) {
    qmp = qmp_connect (config.qmp, QMP_TIMEOUT_MS);
    if (!qmp)
      return -1;
  }
  r = read_nbd_map (qmp);
  if (qmp)
    qmp_close (qmp);
  return r;
}

static int
send_get_ready (int thread_model)
{
  if (thread_model != NBDKIT_THREAD_MODEL_PARALLEL) {
    log_error ("the plugin, or a filter, cannot serve requests in parallel; "
               "threads of this filter could not read the disk");
    return -1;
  }
  if (session_load (config.session_file, has_map, &record,
                    &source.session) == -1)
    return -1;
  return has_map ? read_map () : 0;
}

/* Ask the source for all that nbdkit wants to have been asked before data
 * is read.  Returns 1 if it has extents, 0 if not, -1 with a message.
 */
static int
ask_source (nbdkit_next *next)
{
  uint32_t minimum, preferred, maximum;
  int64_t size = next->get_size (next);
  int can_extents = next->can_extents (next);

  if (size == -1 || can_extents == -1 ||
      next->block_size (next, &minimum, &preferred, &maximum) == -1)
    return -1;
  if (size == 0 || size % 512 != 0) {
    log_error ("the disk has %" PRIi64 " bytes: its size must be a multiple "
               "of 512", size);
    return -1;
  }
  if (map_size != 0 && map_size != (uint64_t) size) {
    log_error ("the map is of an export of %" PRIu64 " bytes but the disk "
               "has %" PRIi64, map_size, size);
    return -1;
  }
  source.size = size;
  source.align = minimum > 0 ? minimum : 1;
  return can_extents;
}

static int
make_plan (void)
{
  int can_extents = ask_source (source.next);

  if (can_extents == -1)
    return -1;
  plan_init (&source.plan, config.batch_bytes);
  if (planner_make (source.next, can_extents, source.size,
                    has_map ? &map : NULL, &source.plan) == -1)
    return -1;
  runs_reset (&map);

  record.size = source.size;
  record.frames = source.plan.nr_batches;
  record.data_bytes = source.plan.data_bytes;
  source.record = session_frame (&record, source.session,
                                 &source.record_bytes);
  log_debug ("%" PRIu64 " frames, %" PRIu64 " bytes of data, %" PRIu64
             " of zeroes in %" PRIu64 " extents", record.frames,
             record.data_bytes, source.plan.zero_bytes,
             source.plan.runs.count);
  FAULT_POINT ("send-planned");
  return source.record ? 0 : -1;
}

static int
send_after_fork (nbdkit_backend *backend)
{
  source.next = nbdkit_next_context_open (backend, 1, "", 1);
  if (!source.next)
    return -1;
  if (source.next->prepare (source.next) == -1 || make_plan () == -1)
    return -1;                  /* nbdkit ends; it closes nothing then */
  pipeline = pipeline_create (&config.pipeline, &source);
  if (!pipeline)
    return -1;
  if (config.stats_file) {
    stats = stats_start (config.stats_file, pipeline,
                         source.plan.data_bytes);
    if (!stats)
      return -1;
  }
  return 0;
}

static void
send_cleanup (nbdkit_backend *backend)
{
  if (pipeline)
    pipeline_stop (pipeline);
  stats_stop (stats);
  pipeline_free (pipeline);
  if (source.next) {
    source.next->finalize (source.next);
    nbdkit_next_context_close (source.next);
  }
  plan_reset (&source.plan);
  free (source.record);
}

static int
send_list_exports (nbdkit_next_list_exports *next, nbdkit_backend *nxdata,
                   int readonly, int is_tls, struct nbdkit_exports *exports)
{
  return nbdkit_add_export (exports, "", NULL);
}

static const char *
send_default_export (nbdkit_next_default_export *next,
                     nbdkit_backend *nxdata, int readonly, int is_tls)
{
  return "";
}

/* Without a call of next: all connections use the shared context. */
static void *
send_open (nbdkit_next_open *next, nbdkit_context *context, int readonly,
           const char *exportname, int is_tls)
{
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int
send_finalize (nbdkit_next *next, void *handle)
{
  stats_write (stats);
  return 0;
}

static int64_t
send_get_size (nbdkit_next *next, void *handle)
{
  return (source.plan.nr_batches + 1) * SLOT_BYTES;
}

static const char *
send_export_description (nbdkit_next *next, void *handle)
{
  return "nbdsync wire export, see nbdsync-formats(5)";
}

static int
send_block_size (nbdkit_next *next, void *handle, uint32_t *minimum,
                 uint32_t *preferred, uint32_t *maximum)
{
  *minimum = 1;
  *preferred = PREFERRED_BYTES;
  *maximum = REQUEST_MAX_BYTES;
  return 0;
}

/* Read-only: nbdkit asks about trim, zero and FUA only if it can write. */
static int
send_no (nbdkit_next *next, void *handle)
{
  return 0;
}

static int
send_yes (nbdkit_next *next, void *handle)
{
  return 1;
}

static int
send_can_cache (nbdkit_next *next, void *handle)
{
  return NBDKIT_CACHE_NONE;
}

static int
send_pread (nbdkit_next *next, void *handle, void *buf, uint32_t count,
            uint64_t offset, uint32_t flags, int *err)
{
  while (count > 0) {
    uint64_t in_slot = offset % SLOT_BYTES;
    uint32_t n = count;

    if (n > SLOT_BYTES - in_slot)
      n = SLOT_BYTES - in_slot;
    if (pipeline_read (pipeline, offset / SLOT_BYTES, in_slot, n, buf,
                       err) == -1)
      return -1;
    buf = (char *) buf + n;
    offset += n;
    count -= n;
  }
  return 0;
}

/* Tell of the first slot only: of the next one it may take time to know,
 * and clients ask on.
 */
static int
send_extents (nbdkit_next *next, void *handle, uint32_t count,
              uint64_t offset, uint32_t flags,
              struct nbdkit_extents *ret_extents, int *err)
{
  uint64_t in_slot = offset % SLOT_BYTES;
  uint64_t n = count < SLOT_BYTES - in_slot ? count : SLOT_BYTES - in_slot;
  uint32_t length = 0;

  if (in_slot < FRAME_MAX_BYTES &&
      pipeline_length (pipeline, offset / SLOT_BYTES, &length, err) == -1)
    return -1;
  /* QEMU wants whole sectors; what is behind the frame reads as zeroes. */
  length = (length + 511) & ~511u;

  *err = ENOMEM;
  if (in_slot < length) {
    uint64_t data = n < length - in_slot ? n : length - in_slot;

    if (nbdkit_add_extent (ret_extents, offset, data, 0) == -1)
      return -1;
    offset += data;
    n -= data;
  }
  if (n > 0 &&
      nbdkit_add_extent (ret_extents, offset, n,
                         NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO) == -1)
    return -1;
  *err = 0;
  return 0;
}

static struct nbdkit_filter filter = {
  .name               = "delta-send",
  .longname           = "nbdkit delta-send filter",
  .description        = "what changed on a disk, as a stream of frames",
  .load               = send_load,
  .unload             = send_unload,
  .config             = send_config,
  .config_complete    = send_config_complete,
  .config_help        = send_config_help,
  .get_ready          = send_get_ready,
  .after_fork         = send_after_fork,
  .cleanup            = send_cleanup,
  .list_exports       = send_list_exports,
  .default_export     = send_default_export,
  .open               = send_open,
  .finalize           = send_finalize,
  .get_size           = send_get_size,
  .export_description = send_export_description,
  .block_size         = send_block_size,
  .can_write          = send_no,
  .can_flush          = send_no,
  .is_rotational      = send_no,
  .can_trim           = send_no,
  .can_zero           = send_no,
  .can_fast_zero      = send_no,
  .can_extents        = send_yes,
  .can_fua            = send_no,
  .can_multi_conn     = send_yes,
  .can_cache          = send_can_cache,
  .pread              = send_pread,
  .extents            = send_extents,
};

NBDKIT_REGISTER_FILTER (filter)
