#include "rendezvous/channel.hpp"

#include <algorithm>
#include <cstring>

#include "net/socket.hpp"
#include "rendezvous/wire.hpp"

namespace kolo::rendezvous {

net::Identity store_identity(const net::Credentials& credentials) {
  return {"store " + credentials.job, credentials.key, 0, net::encryption_of(credentials.tls),
          wire::kVersion};
}

Greeting Greeting::exchange(UniqueFd fd, const net::Credentials& credentials, const Deadline& deadline) {
  const char* const kStranger = "something else than kolo's store answers there";
  const char* const kSilent =
      "what listens there says nothing: it is no store of kolo's, or stopped, or out of descriptors";
  net::Handshake handshake = net::Handshake::dial(store_identity(credentials), 0);
  while (!handshake.done()) {
    std::byte answer[net::Handshake::kMostBytes];
    Status status = net::send_all(fd.get(), handshake.take_output(), deadline);
    if (!status.ok()) return {{}, false, status.message()};
    auto got = net::receive_some(fd.get(), std::span(answer).first(handshake.wanted()), deadline);
    if (!got.ok()) {
      return {{}, false, got.status().code() == Code::timeout ? kSilent : got.status().message()};
    }
    status = handshake.feed(std::span(answer).first(*got));
    if (status.ok()) {
      if (handshake.answered()) status = credentials.admit(fd.get());
      if (status.ok()) continue;
      const bool refused = status.code() != Code::peer_lost;
      return {{}, refused, "no trust in the store there: it is served by " + status.message()};
    }
    const Status unheard = net::send_all(fd.get(), handshake.take_output(), deadline);  // the reason
    if (!handshake.began()) return {{}, false, kStranger};
    return {{}, true, "no trust between this process and the store there: " + status.message()};
  }
  Greeting greeting;
  greeting.channel.fd_ = std::move(fd);
  if (!credentials.tls) return greeting;
  greeting.channel.tls_ = std::make_unique<net::TlsStream>(*credentials.tls, true, handshake.secret());
  if (Status status = greeting.channel.secure(deadline); !status.ok()) return {{}, true, status.message()};
  return greeting;
}

Status Channel::secure(const Deadline& deadline) {
  for (;;) {
    if (Status status = tls_->advance(); !status.ok()) return status;
    if (Status status = flush(deadline); !status.ok()) return status;
    if (tls_->ready()) return {};
    if (Status status = hear(deadline); !status.ok()) return status;
  }
}

Status Channel::flush(const Deadline& deadline) {
  Status status = net::send_all(fd_.get(), tls_->output(), deadline);
  tls_->output().clear();
  return status;
}

/// Waits for bytes from the socket.
Status Channel::hear(const Deadline& deadline) {
  const auto space = tls_->space();
  auto got = net::receive_some(fd_.get(), space, deadline);
  if (!got.ok()) return got.status();
  tls_->filled(*got);
  return {};
}

Status Channel::send(std::string_view bytes, const Deadline& deadline) {
  if (!tls_) return net::send_all(fd_.get(), bytes, deadline);
  if (Status status = tls_->seal(std::as_bytes(std::span(bytes))); !status.ok()) return status;
  return flush(deadline);
}

Status Channel::receive(std::string& into, const Deadline& deadline) {
  if (!tls_) return net::receive_all(fd_.get(), into, deadline);
  for (std::size_t done = 0; done < into.size();) {
    auto got = tls_->open(std::as_writable_bytes(std::span(into)).subspan(done));
    if (!got.ok()) return got.status();
    done += *got;
    if (done == into.size()) break;
    if (Status status = hear(deadline); !status.ok()) return status;
  }
  return {};
}

}  // namespace kolo::rendezvous
