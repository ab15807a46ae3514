// The limits that a client or an operator can run into, or that more than one file must agree on:
// each one named number with its unit. A limit that is a setting has its default here. What bounds
// one file's inner workings stays in that file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenuto {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

// KV pieces.
inline constexpr size_t kPieceBytesMax = 8 * kMiB;  // payload of one piece
// Payload of a piece that is written now. Larger ones cost less to import (libllama copies V row by
// row, so with 2 MiB at a time a quarter more), smaller ones begin to be imported sooner; with its
// header it fills two huge pages.
inline constexpr size_t kPieceBytesTarget = 4 * kMiB - 64 * kKiB;
inline constexpr size_t kPieceChunkBytes = 1 * kMiB;
inline constexpr size_t kPieceChunksMax = kPieceBytesMax / kPieceChunkBytes;

// Requests.
inline constexpr size_t kRequestBodyBytesMax = 16 * kMiB;
inline constexpr size_t kRequestHeaderBytesMax = 32 * kKiB;
inline constexpr size_t kRequestHeadersMax = 100;
inline constexpr size_t kJsonDepthMax = 64;
inline constexpr size_t kMessagesMax = 4096;
inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopStringBytesMax = 1024;
inline constexpr size_t kLogitBiasMax = 1024;
inline constexpr size_t kIdempotencyKeyBytesMax = 255;
inline constexpr size_t kConnectionsMax = 4096;
inline constexpr size_t kDetokenizeTokensMax = size_t{256} * 1024;
inline constexpr size_t kTokenizeBytesMax = 1 * kMiB;

// Engine.
inline constexpr int32_t kSequencesMax = 256;  // libllama's own ceiling
inline constexpr int32_t kPrefillChunkTokens = 512;

// Queues.
inline constexpr size_t kTurnQueueMax = 1024;

}  // namespace tenuto
