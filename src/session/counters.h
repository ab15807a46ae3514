// The session layer's metrics, found once.
#pragma once

#include "base/metrics.h"

namespace tenuto {

struct SessionCounters {
  explicit SessionCounters(Metrics& metrics)
      : turns_ok(
            metrics.GetCounter("tenuto_turns_total", "Turns by how they ended", "result=\"ok\"")),
        turns_error(metrics.GetCounter("tenuto_turns_total", "Turns by how they ended",
                                       "result=\"error\"")),
        turns_cancelled(metrics.GetCounter("tenuto_turns_total", "Turns by how they ended",
                                           "result=\"cancelled\"")),
        turns_replayed(metrics.GetCounter("tenuto_turns_total", "Turns by how they ended",
                                          "result=\"replayed\"")),
        reused(metrics.GetCounter("tenuto_prompt_tokens_total",
                                  "Prompt tokens by where their KV came from",
                                  "source=\"reused\"")),
        restored(metrics.GetCounter("tenuto_prompt_tokens_total",
                                    "Prompt tokens by where their KV came from",
                                    "source=\"restored\"")),
        recomputed(metrics.GetCounter("tenuto_prompt_tokens_total",
                                      "Prompt tokens by where their KV came from",
                                      "source=\"recomputed\"")),
        answer_tokens(metrics.GetCounter("tenuto_answer_tokens_total", "Tokens generated")),
        kv_bytes_stored(
            metrics.GetCounter("tenuto_kv_stored_bytes_total", "Bytes of KV pieces written")),
        kv_store_failures(metrics.GetCounter("tenuto_kv_store_failures_total",
                                             "Times that KV of a turn could not be stored")),
        turns_archived(metrics.GetCounter("tenuto_turns_archived_total",
                                          "Turns that a cut moved out of a session's window")),
        cut_ahead(metrics.GetCounter("tenuto_cut_ahead_tokens_total",
                                     "Tokens computed in idle time for the next cut of a window")),
        cuts_ahead(metrics.GetGauge("tenuto_cuts_ahead",
                                    "Sessions whose next window waits for idle time")),
        recall_injected(metrics.GetCounter("tenuto_recall_injected_total",
                                           "Turns whose prompt quotes archived turns")),
        recall_tokens(metrics.GetCounter("tenuto_recall_tokens_total",
                                         "Prompt tokens that quote archived turns")),
        recall_failures(metrics.GetCounter("tenuto_recall_failures_total",
                                           "Turns that went on without recall since the archive "
                                           "could not be read")),
        sessions_expired(metrics.GetCounter("tenuto_sessions_expired_total",
                                            "Sessions deleted since their time to live was over")),
        quota_refusals(metrics.GetCounter("tenuto_quota_refusals_total",
                                          "Turns and imports refused since a quota was used up")),
        preemptions(metrics.GetCounter("tenuto_preemptions_total",
                                       "Running turns taken off the engine for lack of KV cells")),
        restore_seconds(
            metrics.GetHistogram("tenuto_restore_seconds", "Reading KV back, per turn")),
        commit_seconds(
            metrics.GetHistogram("tenuto_commit_seconds", "Commit of a turn to the token log")),
        sessions_cached(
            metrics.GetGauge("tenuto_sessions_cached", "Sessions whose tokens are in memory")) {}

  Counter& turns_ok;
  Counter& turns_error;
  Counter& turns_cancelled;
  Counter& turns_replayed;
  Counter& reused;
  Counter& restored;
  Counter& recomputed;
  Counter& answer_tokens;
  Counter& kv_bytes_stored;
  Counter& kv_store_failures;
  Counter& turns_archived;
  Counter& cut_ahead;
  Gauge& cuts_ahead;
  Counter& recall_injected;
  Counter& recall_tokens;
  Counter& recall_failures;
  Counter& sessions_expired;
  Counter& quota_refusals;
  Counter& preemptions;
  Histogram& restore_seconds;
  Histogram& commit_seconds;
  Gauge& sessions_cached;
};

}  // namespace tenuto
