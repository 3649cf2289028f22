// The store in a file: an append-only log of changes that every rank replays.
//
//   file    "kolo store 3\n" record*
//   record  kind:u8 key_bytes:u32 value_bytes:u32 key value checksum:u64     (this host's byte order)
//
// A writer holds flock(2) while it appends, so one rank's add() is atomic. Readers take no lock: they accept
// only records that are complete and whose checksum fits. A writer that is killed leaves at most a torn
// record at the end. The next writer cuts it off.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/config.hpp"
#include "base/deadline.hpp"
#include "base/file_size_limit.hpp"
#include "base/hash.hpp"
#include "base/unique_fd.hpp"
#include "kolo/store.hpp"
#include "rendezvous/own_store.hpp"
#include "rendezvous/table.hpp"

namespace kolo {
namespace {

constexpr std::string_view kMagic =
    "kolo store 3\n";  // of the file, whose number counts up when its form changes

enum class RecordKind : std::uint8_t { set = 1, remove = 2 };

struct RecordHead {
  RecordKind kind;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
};
constexpr std::size_t kHeadBytes = 9;

std::string encode(RecordKind kind, std::string_view key, std::string_view value) {
  const auto key_bytes = static_cast<std::uint32_t>(key.size());
  const auto value_bytes = static_cast<std::uint32_t>(value.size());
  std::string record(kHeadBytes, '\0');
  record[0] = static_cast<char>(kind);
  std::memcpy(record.data() + 1, &key_bytes, 4);
  std::memcpy(record.data() + 5, &value_bytes, 4);
  record.append(key).append(value);
  const std::uint64_t sum = hash(kHashSeed, record);
  record.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return record;
}

bool decode_head(std::string_view bytes, RecordHead& head) {
  head.kind = static_cast<RecordKind>(bytes[0]);
  std::memcpy(&head.key_bytes, bytes.data() + 1, 4);
  std::memcpy(&head.value_bytes, bytes.data() + 5, 4);
  return (head.kind == RecordKind::set || head.kind == RecordKind::remove) &&
         head.key_bytes <= rendezvous::kMaxKeyBytes && head.value_bytes <= rendezvous::kMaxValueBytes;
}

/// Releases the lock on leaving a scope.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::flock(fd_, LOCK_UN); }

 private:
  int fd_;
};

class FileStore final : public Store, public rendezvous::OwnStore {
 public:
  FileStore(const std::string& path, std::chrono::nanoseconds timeout) : path_(path), timeout_(timeout) {}

  Status open() {
    fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd_.valid()) return failed("cannot open", errno);
    return locked([] { return Status(); });
  }

  void set(const std::string& key, const std::string& value) override {
    rendezvous::check_key(key).throw_if_error();
    rendezvous::check_value(value).throw_if_error();
    const std::lock_guard guard(mutex_);
    locked([&] { return append(encode(RecordKind::set, key, value)); }).throw_if_error();
  }

  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    rendezvous::check_key(key).throw_if_error();
    std::string value;
    const bool found = poll(Deadline::after(timeout), [&] {
      const std::string* at = table_.find(key);
      if (at) value = *at;
      return at != nullptr;
    });
    if (!found) rendezvous::missing_key(key, describe(), timeout).throw_if_error();
    return value;
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    rendezvous::check_key(key).throw_if_error();
    std::int64_t sum = 0;
    const std::lock_guard guard(mutex_);
    locked([&] {
      rendezvous::Table
          attempt;  // a scratch table: the real one changes only by replay, from what is in the file
      if (const std::string* value = table_.find(key)) attempt.set(key, *value);
      Result<std::int64_t> added = attempt.add(key, amount);
      if (!added.ok()) return added.status();
      sum = *added;
      return append(encode(RecordKind::set, key, std::to_string(sum)));
    }).throw_if_error();
    return sum;
  }

  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    for (const std::string& key : keys) rendezvous::check_key(key).throw_if_error();
    std::vector<std::string> absent;
    poll(Deadline::after(timeout), [&] {
      absent = table_.missing(keys);
      return absent.empty();
    });
    return absent;
  }

  void remove(const std::string& key) override {
    rendezvous::check_key(key).throw_if_error();
    const std::lock_guard guard(mutex_);
    locked([&] { return append(encode(RecordKind::remove, key, "")); }).throw_if_error();
  }

  std::string describe() const override { return "file://" + path_; }

 private:
  enum class Found { record, end, torn, corrupt };

  Status failed(const std::string& what, int error_number) const {
    return Status(Code::rendezvous,
                  Status::from_errno(what + " the store's file " + path_, error_number).message());
  }

  /// Replays until `done()` or the deadline. Sleeps without the mutex, so that other threads can write.
  bool poll(const Deadline& deadline, const std::function<bool()>& done) {
    auto pause = std::chrono::nanoseconds(std::chrono::microseconds(200));
    auto refreshed = Clock::now();
    for (;;) {
      {
        const std::lock_guard guard(mutex_);
        // Taking a lock makes a network file system ask its server for the file's present length.
        if (Clock::now() - refreshed > std::chrono::milliseconds(250)) {
          refreshed = Clock::now();
          if (::flock(fd_.get(), LOCK_SH | LOCK_NB) == 0) ::flock(fd_.get(), LOCK_UN);
        }
        replay().status().throw_if_error();
        if (done()) return true;
      }
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::min(pause, deadline.left()));
      pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(20));
    }
  }

  /// Runs `change` as the only writer, on a table that is up to date; then replays what it appended.
  Status locked(const std::function<Status()>& change) {
    const Deadline deadline = Deadline::after(timeout_);
    auto pause = std::chrono::nanoseconds(std::chrono::microseconds(50));
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return failed("cannot lock", errno);
      if (deadline.passed()) {
        return Status(Code::rendezvous,
                      fmt::format("another process has held the store {} locked for {:.3g} s", path_,
                                  to_seconds(timeout_)));
      }
      std::this_thread::sleep_for(std::min(pause, deadline.left()));
      pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(5));
    }
    const FileLock lock(fd_.get());
    if (Status status = begin(); !status.ok()) return status;
    if (Status status = catch_up(); !status.ok()) return status;
    if (Status status = change(); !status.ok()) return status;
    return catch_up();
  }

  /// Called by the only writer: checks or writes the first line of the file, once.
  Status begin() {
    if (offset_ != 0) return {};
    std::string head(kMagic.size(), '\0');
    const auto got = read_at(0, head);
    if (!got.ok()) return got.status();
    head.resize(*got);
    if (!kMagic.starts_with(head)) {
      return Status(Code::rendezvous, path_ + " is not a store of kolo; it is left as it is");
    }
    if (head.size() < kMagic.size()) {
      if (Status status = write_at(0, kMagic); !status.ok()) return status;
    }
    offset_ = static_cast<off_t>(kMagic.size());
    return {};
  }

  /// Called by the only writer: replays to the end and cuts off a torn record there.
  Status catch_up() {
    const Result<Found> stopped = replay();
    if (!stopped.ok()) return stopped.status();
    if (*stopped == Found::corrupt) {
      return Status(Code::rendezvous, fmt::format("the store {} is damaged at byte {}", path_, offset_));
    }
    if (*stopped == Found::torn && ::ftruncate(fd_.get(), offset_) != 0)
      return failed("cannot shorten", errno);
    return {};
  }

  /// Applies all whole records from offset_ on, and says why it stopped.
  Result<Found> replay() {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return failed("cannot read", errno);
    if (info.st_size < offset_) {
      return Status(Code::rendezvous, "the store " + path_ + " was emptied or replaced while in use");
    }
    for (;;) {
      Result<Found> stopped = read_record();
      if (!stopped.ok() || *stopped != Found::record) return stopped;
    }
  }

  Result<Found> read_record() {
    std::string record(kHeadBytes, '\0');
    RecordHead head;
    auto got = read_at(offset_, record);
    if (!got.ok()) return got.status();
    if (*got < kHeadBytes) return *got == 0 ? Found::end : Found::torn;
    if (!decode_head(record, head)) return Found::corrupt;
    record.resize(kHeadBytes + head.key_bytes + head.value_bytes + sizeof(std::uint64_t));
    got = read_at(offset_, record);
    if (!got.ok()) return got.status();
    if (*got < record.size()) return Found::torn;
    const std::string_view body(record.data(), record.size() - sizeof(std::uint64_t));
    std::uint64_t sum;
    std::memcpy(&sum, record.data() + body.size(), sizeof(sum));
    if (sum != hash(kHashSeed, body)) return Found::corrupt;
    const std::string key(body.substr(kHeadBytes, head.key_bytes));
    if (head.kind == RecordKind::set) {
      table_.set(key, std::string(body.substr(kHeadBytes + head.key_bytes)));
    } else {
      table_.remove(key);
    }
    offset_ += static_cast<off_t>(record.size());
    return Found::record;
  }

  /// Reads up to all of `into`; returns how many bytes there were. An error is not the end of the file: a
  /// writer that took it for the end would overwrite other ranks' records.
  Result<std::size_t> read_at(off_t offset, std::string& into) const {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          ::pread(fd_.get(), into.data() + done, into.size() - done, offset + static_cast<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed("cannot read", errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  Status append(const std::string& record) { return write_at(offset_, record); }

  /// All of `bytes`, or none: a write that fails half way is undone.
  Status write_at(off_t offset, std::string_view bytes) {
    const FileSizeLimit limit;
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put =
          ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        const int error = errno;
        if (::ftruncate(fd_.get(), offset) != 0) return failed("cannot shorten", errno);
        return failed("cannot write", error);
      }
      done += static_cast<std::size_t>(put);
    }
    return {};
  }

  const std::string path_;
  const std::chrono::nanoseconds timeout_;  ///< longest wait for another writer
  UniqueFd fd_;
  std::mutex mutex_;  ///< guards what follows, and the file lock, which threads would share
  rendezvous::Table table_;
  off_t offset_ = 0;  ///< everything before it is in table_
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path) {
  auto store = std::make_shared<FileStore>(path, config().timeout);
  store->open().throw_if_error();
  return store;
}

}  // namespace kolo
