#include "select/prototypes.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::select {
namespace {

using Kind = Parameter::Kind;

Prototype prototype_of(std::string_view library, std::string_view function) {
  const auto found = find_prototype(library, function);
  EXPECT_TRUE(found) << function;
  return found.value_or(Prototype{});
}

// `1 fd i32, 2 buf u64`: n of $argN, or 0, with the name and the size.
std::string arguments_of(std::string_view library, std::string_view function) {
  std::string text;
  for (const Parameter& one : prototype_of(library, function).parameters)
    text += (text.empty() ? "" : ", ") + std::to_string(one.argument) + " " +
            std::string(one.name) +
            (one.kind == Kind::floating_point
                 ? ""
                 : (one.is_signed ? " i" : " u") + std::to_string(8 * one.bytes));
  return text;
}

TEST(Prototypes, HaveTheNamesOfTheManualAndTheSizesOfTheAbi) {
  // ssize_t write(int fd, const void buf[.count], size_t count);
  EXPECT_EQ(arguments_of("libc", "write"), "1 fd i32, 2 buf u64, 3 count u64");
  // ssize_t pread(int fd, void buf[.count], size_t count, off_t offset);
  EXPECT_EQ(arguments_of("libc", "pread"), "1 fd i32, 2 buf u64, 3 count u64, 4 offset i64");
  // int kill(pid_t pid, int sig);
  EXPECT_EQ(arguments_of("libc", "kill"), "1 pid i32, 2 sig i32");
  // int connect(int sockfd, const struct sockaddr *addr, socklen_t addrlen);
  EXPECT_EQ(arguments_of("libc", "connect"), "1 sockfd i32, 2 addr u64, 3 addrlen u32");
  // int chmod(const char *pathname, mode_t mode);
  EXPECT_EQ(arguments_of("libc", "chmod"), "1 pathname u64, 2 mode u32");
  // uint16_t htons(uint16_t hostshort);
  EXPECT_EQ(arguments_of("libc", "htons"), "1 hostshort u16");
  // int waitid(idtype_t idtype, id_t id, siginfo_t *infop, int options); idtype_t is an enum.
  EXPECT_EQ(arguments_of("libc", "waitid"), "1 idtype u32, 2 id u32, 3 infop u64, 4 options i32");
  // void *mmap(void addr[.length], size_t length, int prot, int flags, int fd, off_t offset);
  EXPECT_EQ(arguments_of("libc", "mmap"),
            "1 addr u64, 2 length u64, 3 prot i32, 4 flags i32, 5 fd i32, 6 offset i64");
}

TEST(Prototypes, CountNoFloatingPointNumberAsAnArgument) {
  // double ldexp(double x, int exp);
  EXPECT_EQ(arguments_of("libm", "ldexp"), "0 x, 1 exp i32");
  // double frexp(double x, int *exp);
  EXPECT_EQ(arguments_of("libm", "frexp"), "0 x, 1 exp u64");
  // double remquo(double x, double y, int *quo);
  EXPECT_EQ(arguments_of("libm", "remquo"), "0 x, 0 y, 1 quo u64");
  // double jn(int n, double x);
  EXPECT_EQ(arguments_of("libm", "jn"), "1 n i32, 0 x");
  // long double scalbnl(long double x, int exp): the first one is in memory.
  EXPECT_EQ(arguments_of("libm", "scalbnl"), "0 x, 1 exp i32");
}

TEST(Prototypes, HaveNoArgumentOnTheStack) {
  // int PQsendQueryParams(PGconn *conn, const char *command, int nParams, const Oid *paramTypes,
  //     const char *const *paramValues, const int *paramLengths, const int *paramFormats,
  //     int resultFormat);
  const auto found = prototype_of("libpq", "PQsendQueryParams");
  ASSERT_EQ(found.parameters.size(), 8);
  EXPECT_EQ(found.parameters[5].name, "paramLengths");
  EXPECT_EQ(found.parameters[5].argument, 6);
  EXPECT_EQ(found.parameters[6].argument, 0);
  EXPECT_EQ(found.parameters[7].argument, 0);
}

TEST(Prototypes, OfOtherLibrariesHaveTheNamesOfTheirHeaders) {
  // int SSL_read(SSL *ssl, void *buf, int num);
  EXPECT_EQ(arguments_of("libssl", "SSL_read"), "1 ssl u64, 2 buf u64, 3 num i32");
  // int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *d, size_t cnt);
  EXPECT_EQ(arguments_of("libcrypto", "EVP_DigestUpdate"), "1 ctx u64, 2 d u64, 3 cnt u64");
  // int compress2(Bytef *dest, uLongf *destLen, const Bytef *source, uLong sourceLen, int level);
  EXPECT_EQ(arguments_of("libz", "compress2"),
            "1 dest u64, 2 destLen u64, 3 source u64, 4 sourceLen u64, 5 level i32");
  // int gzread(gzFile file, voidp buf, unsigned len);
  EXPECT_EQ(arguments_of("libz", "gzread"), "1 file u64, 2 buf u64, 3 len u32");
  // int sqlite3_prepare_v2(sqlite3 *db, const char *zSql, int nByte, sqlite3_stmt **ppStmt,
  //     const char **pzTail);
  EXPECT_EQ(arguments_of("libsqlite3", "sqlite3_prepare_v2"),
            "1 db u64, 2 zSql u64, 3 nByte i32, 4 ppStmt u64, 5 pzTail u64");
  // PGresult *PQexec(PGconn *conn, const char *query);
  EXPECT_EQ(arguments_of("libpq", "PQexec"), "1 conn u64, 2 query u64");
}

TEST(Prototypes, SayWhatAPointerLeadsTo) {
  const auto kind = [](std::string_view function, std::string_view name) {
    const Prototype all = prototype_of("libc", function);
    const Parameter* const found = all.find(name);
    EXPECT_NE(found, nullptr) << function << ' ' << name;
    return found == nullptr ? std::pair(Kind::other, std::string())
                            : std::pair(found->kind, std::string(found->length));
  };
  EXPECT_EQ(kind("write", "buf"), std::pair(Kind::bytes, std::string("count")));
  EXPECT_EQ(kind("read", "buf"), std::pair(Kind::output_bytes, std::string("count")));
  EXPECT_EQ(kind("fread", "ptr"), std::pair(Kind::output_bytes, std::string("size*nmemb")));
  EXPECT_EQ(kind("open", "pathname"), std::pair(Kind::text, std::string()));
  EXPECT_EQ(kind("open", "flags"), std::pair(Kind::flags, std::string()));
  EXPECT_EQ(kind("stat", "statbuf"), std::pair(Kind::output, std::string()));
  // The kernel may write to what is mapped there, but not for this call.
  EXPECT_EQ(kind("munmap", "addr"), std::pair(Kind::bytes, std::string("length")));
  EXPECT_EQ(kind("free", "ptr"), std::pair(Kind::other, std::string()));
  EXPECT_EQ(kind("write", "count"), std::pair(Kind::other, std::string()));
}

TEST(Prototypes, SayHowAFunctionFailsWithErrno) {
  using Failure = Prototype::Failure;
  EXPECT_EQ(prototype_of("libc", "read").failure, Failure::minus_one);
  EXPECT_EQ(prototype_of("libc", "read").result, "ssize_t");
  EXPECT_EQ(prototype_of("libc", "malloc").failure, Failure::null);
  EXPECT_EQ(prototype_of("libc", "fopen").result, "FILE *");
  // It returns the number of the error.
  EXPECT_EQ(prototype_of("libc", "pthread_create").failure, Failure::none);
  EXPECT_EQ(prototype_of("libc", "strlen").failure, Failure::none);
}

TEST(Prototypes, OfVariadicFunctionsHaveWhatIsKnownToFollow) {
  // int open(const char *pathname, int flags, ... /* mode_t mode */);
  EXPECT_EQ(arguments_of("libc", "open"), "1 pathname u64, 2 flags i32, 3 mode u32");
  EXPECT_TRUE(prototype_of("libc", "open").takes_more);
  EXPECT_EQ(arguments_of("libc", "printf"), "1 format u64");
  EXPECT_FALSE(prototype_of("libc", "write").takes_more);
}

TEST(Prototypes, AreFoundByOtherNamesOfTheFunctionAndInTheLibrariesThatItWasIn) {
  EXPECT_EQ(arguments_of("libc", "pread64"), arguments_of("libc", "pread"));
  EXPECT_EQ(arguments_of("libc", "__write"), arguments_of("libc", "write"));
  EXPECT_EQ(arguments_of("libc", "__libc_read"), arguments_of("libc", "read"));
  EXPECT_EQ(arguments_of("libpthread", "write"), arguments_of("libc", "write"));
  EXPECT_EQ(arguments_of("ld-musl-x86_64", "write"), arguments_of("libc", "write"));
  // It starts like this itself.
  EXPECT_EQ(prototype_of("libc", "_exit").parameters.size(), 1);
}

TEST(Prototypes, OfUnknownFunctionsAndLibrariesAreNotThere) {
  for (const std::string_view name : {"", "_", "__", "wri", "writ", "writes", "write:", "zzz", "!",
                                      "write:26!", "fd", "\n", "__libc_", "printf\n"})
    EXPECT_FALSE(find_prototype("libc", name)) << name;
  EXPECT_FALSE(find_prototype("libfoo", "write"));
  EXPECT_FALSE(find_prototype("", "write"));
  EXPECT_FALSE(find_prototype("libssl", "write"));
  EXPECT_FALSE(find_prototype("libssl", "__SSL_read"));
}

// Structures by value are passed in any number of registers.
TEST(Prototypes, LeaveOutWhatPassesStructuresByValue) {
  EXPECT_FALSE(find_prototype("libc", "inet_ntoa"));
  EXPECT_FALSE(find_prototype("libc", "div"));
  EXPECT_FALSE(find_prototype("libc", "sigqueue"));
}

TEST(Prototypes, HaveNoParameterWithoutAName) {
  // int sqlite3_bind_int(sqlite3_stmt*, int, int);
  const auto found = prototype_of("libsqlite3", "sqlite3_bind_int");
  ASSERT_EQ(found.parameters.size(), 3);
  EXPECT_EQ(found.find(""), nullptr);
}

TEST(Prototypes, GiveAValueTheSizeOfTheParameterOrTheTypeOfTheUser) {
  const auto write = prototype_of("libc", "write");
  const auto value = [&](std::string_view text) {
    const auto wanted = parse_value(text);
    return value_of(*write.find(wanted->name), *wanted);
  };
  EXPECT_EQ(value("fd"), *parse_value("$arg1:s32"));
  EXPECT_EQ(value("count"), *parse_value("$arg3:u64"));
  EXPECT_EQ(value("count:s16"), *parse_value("$arg3:s16"));
}

}  // namespace
}  // namespace pinprick::select
