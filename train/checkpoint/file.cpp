#include "checkpoint/file.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <caffe2/serialize/file_adapter.h>
#include <fcntl.h>
#include <torch/serialize/archive.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "checkpoint/archive_check.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::int64_t kFormat = 1;

at::Tensor tensor_of(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string bytes_of(torch::serialize::InputArchive& archive, const std::string& name) {
  at::Tensor tensor;
  archive.read(name, tensor);
  if (tensor.scalar_type() != at::kByte || !tensor.is_contiguous())
    throw std::runtime_error("'" + name + "' is of another kind");
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

std::int64_t number_of(torch::serialize::InputArchive& archive, const std::string& name) {
  c10::IValue number;
  archive.read(name, number);
  return number.toInt();
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail("open");
  }
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail("write");
      done += static_cast<std::size_t>(wrote);
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) fail("fsync");
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
  void close() { ::close(fd_); }
  int fd_;
};

}  // namespace

void write_checkpoint(const std::string& path, const CheckpointFile& file) try {
  torch::serialize::OutputArchive archive;
  archive.write("kolo_checkpoint", c10::IValue(kFormat));
  archive.write("step", c10::IValue(static_cast<std::int64_t>(file.step)));
  archive.write("ranks", c10::IValue(static_cast<std::int64_t>(file.ranks.size())));
  archive.write("shared", tensor_of(file.shared));
  for (std::size_t r = 0; r < file.ranks.size(); ++r)
    archive.write("rank" + std::to_string(r), tensor_of(file.ranks[r]));
  std::ostringstream bytes;
  archive.save_to(bytes);

  const std::string part = path + ".part";
  try {
    File out(part, O_WRONLY | O_CREAT | O_TRUNC);
    out.write(bytes.str());
    out.sync();  // before it gets its name: a name without its bytes is what a crash must not leave
    std::filesystem::rename(part, path);
  } catch (...) {
    ::unlink(part.c_str());  // leaves a folder of that name
    throw;
  }
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  File(folder.string(), O_RDONLY | O_DIRECTORY).sync();
} catch (const std::exception& error) {
  throw Error(path + ": " + error.what(), {});
}

CheckpointFile read_checkpoint(const std::string& path) try {
  if (!std::filesystem::exists(path)) throw std::runtime_error("there is no such file");
  const auto bytes = std::make_shared<caffe2::serialize::FileAdapter>(path);
  check_archive(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from([&](std::uint64_t at, void* to, std::size_t count) { return bytes->read(at, to, count); },
                    [&] { return bytes->size(); });
  if (const std::int64_t format = number_of(archive, "kolo_checkpoint"); format != kFormat)
    throw std::runtime_error("it is of format " + std::to_string(format) + ", not " +
                             std::to_string(kFormat));
  CheckpointFile file;
  file.step = static_cast<std::uint64_t>(number_of(archive, "step"));
  file.shared = bytes_of(archive, "shared");
  const std::int64_t ranks = number_of(archive, "ranks");
  for (std::int64_t r = 0; r < ranks; ++r)
    file.ranks.push_back(bytes_of(archive, "rank" + std::to_string(r)));
  return file;
} catch (const c10::Error& error) {
  throw Error(path + ": " + error.what_without_backtrace(), {});
} catch (const std::exception& error) {
  throw Error(path + ": " + error.what(), {});
}

}  // namespace kolo::train
