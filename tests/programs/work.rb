# Exceptions (longjmp), fibers, regular expressions, the collector with its conservative stack scan.
require 'digest'
require 'json'
require 'zlib'

def deep(n) = n == 0 ? raise(ArgumentError, 'bottom') : 1 + deep(n - 1)

def round
  h = Digest::SHA256.new
  500.times { |i| begin; deep(i % 100); rescue ArgumentError => e; h << e.message; end }
  h << catch(:found) { 1000.times { |i| throw :found, i.to_s if i == 777 } }
  fiber = Fiber.new { 100.times { |i| Fiber.yield i * i }; -1 }
  101.times { h << fiber.resume.to_s }
  words = (0...5000).map { |i| "w#{(i * 7919 % 10007).to_s(36)}" }.sort
  h << words.join(' ').gsub(/w(\w)/, '\1w')
  h << Zlib::Inflate.inflate(Zlib::Deflate.deflate(JSON.generate(words)))
  GC.start
  h.hexdigest
end

first = round
puts first
$stdout.flush
n = 1
while n < 3 || !File.exist?(ARGV[0])
  if round != first
    puts "MISMATCH in round #{n}"
    exit 1
  end
  n += 1
end
puts 'done'
