// Valid and hostile HTTP requests for metrics.
#include "observe/http.hpp"

#include <gtest/gtest.h>

#include <random>

#include "fuzz/http_request.hpp"

namespace kolo::observe::http {
namespace {

TEST(Http, KnowsItsOnePage) {
  EXPECT_EQ(judge("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Verdict::page);
  EXPECT_EQ(judge("GET /metrics?x=1 HTTP/1.0\n\n"), Verdict::page);
  EXPECT_EQ(judge("GET / HTTP/1.1\r\n\r\n"), Verdict::not_found);
  EXPECT_EQ(judge("GET /metrics/ HTTP/1.1\r\n\r\n"), Verdict::not_found);
  EXPECT_EQ(judge("POST /metrics HTTP/1.1\r\n\r\n"), Verdict::not_allowed);
}

TEST(Http, WaitsForTheRestButNotForever) {
  EXPECT_EQ(judge(""), Verdict::incomplete);
  EXPECT_EQ(judge("GET /metrics HTTP/1.1\r\nHost: a\r\n"), Verdict::incomplete);
  EXPECT_EQ(judge(std::string(kMostRequestBytes, 'a')), Verdict::incomplete);
  EXPECT_EQ(judge(std::string(kMostRequestBytes + 1, 'a')), Verdict::malformed);
  EXPECT_EQ(judge("GET /metrics HTTP/1.1\r\nA: " + std::string(kMostRequestBytes, 'a') + "\r\n\r\n"),
            Verdict::malformed);
}

TEST(Http, RefusesWhatIsNone) {
  for (const char* request : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                              "GET /metrics HTTP/2\r\n\r\n", "GET /met rics HTTP/1.1\r\n\r\n",
                              "\x16\x03\x01\x02 a HTTP/1.1\r\n\r\n"}) {
    EXPECT_EQ(judge(request), Verdict::malformed) << request;
  }
}

TEST(Http, AnswersTellTheirLength) {
  const std::string answer = response(Verdict::page, "12345");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n12345"));
  EXPECT_TRUE(response(Verdict::not_found, "").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(response(Verdict::malformed, "").starts_with("HTTP/1.1 400 "));
}

TEST(Http, AnyBytesAreJudgedAlikeHoweverTheyCome) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      request[random() % request.size()] = static_cast<char>(random());
    }
    fuzz::http_request(request);
  }
}

}  // namespace
}  // namespace kolo::observe::http
