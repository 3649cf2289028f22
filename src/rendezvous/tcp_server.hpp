// Serves a store at one address; shared by serve_tcp_store() and the job's own store.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "kolo/store.hpp"
#include "net/credentials.hpp"
#include "net/socket.hpp"

namespace kolo::rendezvous {

/// Serves from a thread of its own. The error is that of listen_on() or Credentials::allow().
Result<std::unique_ptr<TcpStoreServer>> serve_store(const net::SocketAddress& address,
                                                    const net::Credentials& credentials);

}  // namespace kolo::rendezvous
