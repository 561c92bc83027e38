/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a sync tells its user.  Numbers come from the agents' JSON; a
 * member that is missing counts as zero.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "commands.h"
#include "json.h"
#include "report.h"

static uint64_t
u64 (const json_t *object, const char *key)
{
  uint64_t v = 0;

  json_get_u64 (object, key, &v);
  return v;
}

static const char *
text (const json_t *object, const char *key)
{
  const char *v = json_get_string (object, key);

  return v ? v : "";
}

static json_t *
find (const json_t *disks, const char *name)
{
  json_t *d;
  size_t i;

  json_array_foreach (disks, i, d)
    if (strcmp (text (d, "name"), name) == 0)
      return d;
  return NULL;
}

void
progress_clear (struct progress *p)
{
  if (p->lines)
    fprintf (stderr, "\033[%dA\033[J", p->lines);
  p->lines = 0;
}

/* "12:34", or "1:02:03". */
static void
show_time_left (double seconds)
{
  unsigned s = seconds;

  if (s >= 3600)
    fprintf (stderr, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
  else
    fprintf (stderr, "%u:%02u", s / 60, s % 60);
}

void
progress_show (struct progress *p, const json_t *stats, int64_t pass_ms)
{
  double seconds = (clock_ms () - pass_ms) / 1000.0;
  json_t *d;
  size_t i;

  if (!p->on)
    return;
  progress_clear (p);
  json_array_foreach (json_object_get (stats, "disks"), i, d) {
    uint64_t frames = u64 (d, "pass_frames");
    uint64_t sent = u64 (d, "pass_frames_sent");
    uint64_t wire = u64 (d, "wire_bytes"), data = u64 (d, "data_bytes");
    char a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];

    fprintf (stderr, "%-12s %3d %%  disk %s/s  wire %s/s  ratio %.1f",
             text (d, "name"), frames ? (int) (sent * 100 / frames) : 100,
             size_text (seconds > 0 ? data / seconds : 0, a),
             size_text (seconds > 0 ? wire / seconds : 0, b),
             wire ? (double) data / wire : 1.0);
    if (sent > 0 && frames > sent) {
      fputs ("  left ", stderr);
      show_time_left (seconds * (frames - sent) / sent);
    }
    fputc ('\n', stderr);
    p->lines++;
  }
}

void
report_add_stats (json_t *disks, const json_t *stats)
{
  static const char *const keys[] = { "data_bytes", "zero_bytes",
                                      "wire_bytes" };
  json_t *d, *to;
  size_t i;

  json_array_foreach (json_object_get (stats, "disks"), i, d)
    if ((to = find (disks, text (d, "name"))))
      for (size_t k = 0; k < 3; k++)
        json_object_set_new (to, keys[k], json_integer (u64 (d, keys[k])));
}

void
report_add_seconds (json_t *disks, const char *disk, double seconds)
{
  json_t *to = find (disks, disk);

  if (to)
    json_object_set_new (
      to, "seconds",
      json_real (json_real_value (json_object_get (to, "seconds")) +
                 seconds));
}

json_t *
report_json (const json_t *disks, uint64_t generation, double seconds,
             unsigned hold_ms, const char *error)
{
  json_t *out = json_array (), *d;
  size_t i;

  json_array_foreach (disks, i, d)
    json_array_append_new (
      out, json_pack ("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f}",
                      "name", text (d, "name"), "kind", text (d, "kind"),
                      "reason", text (d, "reason"), "way", text (d, "way"),
                      "dirty_bytes", (json_int_t) u64 (d, "dirty_bytes"),
                      "data_bytes", (json_int_t) u64 (d, "data_bytes"),
                      "zero_bytes", (json_int_t) u64 (d, "zero_bytes"),
                      "wire_bytes", (json_int_t) u64 (d, "wire_bytes"),
                      "seconds",
                      json_real_value (json_object_get (d, "seconds"))));
  return json_pack ("{s:s, s:I, s:f, s:i, s:s*, s:o}",
                    "result", error ? "failed" : "ok",
                    "generation", (json_int_t) generation,
                    "seconds", seconds, "hold_ms", (int) hold_ms,
                    "error", error, "disks", out);
}

void
report_table (const json_t *report)
{
  json_t *d;
  size_t i;

  printf ("%-12s %-12s %10s %10s %10s %7s %8s\n", "DISK", "KIND", "DIRTY",
          "DATA", "WIRE", "RATIO", "SECONDS");
  json_array_foreach (json_object_get (report, "disks"), i, d) {
    char dirty[SIZE_TEXT_MAX], data[SIZE_TEXT_MAX], wire[SIZE_TEXT_MAX];
    char ratio[16] = "-";
    uint64_t w = u64 (d, "wire_bytes");

    if (w)
      snprintf (ratio, sizeof ratio, "%.1f",
                (double) u64 (d, "data_bytes") / w);
    printf ("%-12s %-12s %10s %10s %10s %7s %8.1f\n", text (d, "name"),
            text (d, "kind"), size_text (u64 (d, "dirty_bytes"), dirty),
            size_text (u64 (d, "data_bytes"), data), size_text (w, wire),
            ratio, json_real_value (json_object_get (d, "seconds")));
    if (strcmp (text (d, "kind"), "full") == 0)
      printf ("             full because %s\n", text (d, "reason"));
  }
  printf ("generation %" PRIu64 ", %.1f s, guest held for at most %d ms\n",
          u64 (report, "generation"),
          json_real_value (json_object_get (report, "seconds")),
          (int) u64 (report, "hold_ms"));
}

void
report_plan (const json_t *plan)
{
  json_t *d;
  size_t i;

  printf ("%s\n", text (plan, "way"));
  json_array_foreach (json_object_get (plan, "disks"), i, d) {
    char size[SIZE_TEXT_MAX];

    printf ("%-12s %-12s %10s  %s\n", text (d, "name"), text (d, "kind"),
            size_text (u64 (d, "dirty_bytes"), size), text (d, "reason"));
  }
  json_array_foreach (json_object_get (plan, "skipped"), i, d)
    printf ("%-12s %-12s %10s  %s\n", text (d, "name"), "skip", "-",
            text (d, "reason"));
}
