#include "cli/compression.hpp"

#include <zconf.h>
#include <zlib.h>

#include <array>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "report/print/text_sink.hpp"

namespace penstock {
namespace {

/// A gzip stream that passes its bytes to a sink.
class GzipStream {
 public:
  explicit GzipStream(const TextSink& sink) : sink_(sink) {
    constexpr int kGzipWindow = 15 + 16;  // 16 asks for the header of gzip
    constexpr int kMemoryLevel = 8;       // zlib's default
    const int status = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                                    Z_DEFAULT_STRATEGY);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK) throw std::runtime_error("zlib cannot compress");
  }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  GzipStream(GzipStream&&) = delete;
  GzipStream& operator=(GzipStream&&) = delete;
  ~GzipStream() { deflateEnd(&stream_); }

  /// Compresses `text`, or ends the stream if `flush` is Z_FINISH. Returns false if the sink needs no more.
  bool write(std::string_view text, int flush) {
    std::string bytes(text);  // zlib takes a pointer to bytes that are not constant
    stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());  // NOLINT(*-reinterpret-cast): zlib's type
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());  // NOLINT(*-reinterpret-cast)
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);
      is_wanted_ = is_wanted_ && sink_(std::string_view(out_.data(), out_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0 && is_wanted_);
    return is_wanted_;
  }

 private:
  const TextSink& sink_;
  z_stream stream_{};
  std::array<char, 1U << 16U> out_{};
  bool is_wanted_ = true;
};

}  // namespace

TextInPieces compressed(TextInPieces text) {
  return [text = std::move(text)](const TextSink& sink) {
    GzipStream stream(sink);
    text([&stream](std::string_view piece) { return stream.write(piece, Z_NO_FLUSH); });
    stream.write({}, Z_FINISH);
  };
}

}  // namespace penstock
