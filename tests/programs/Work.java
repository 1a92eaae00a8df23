// Allocation, exceptions, sorting, hashing: HotSpot's collector and its compilers at work.
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.zip.*;

public class Work {
  record Node(Node left, Node right) {}
  static Node tree(int depth) { return depth == 0 ? null : new Node(tree(depth - 1), tree(depth - 1)); }
  static int count(Node node) { return node == null ? 0 : 1 + count(node.left) + count(node.right); }
  static int deep(int n) { if (n == 0) throw new IllegalStateException("bottom"); return 1 + deep(n - 1); }

  static String round() throws Exception {
    StringBuilder all = new StringBuilder();
    for (int i = 0; i < 10; ++i) all.append(count(tree(13)));
    int caught = 0;
    for (int i = 0; i < 300; ++i) try { deep(i); } catch (IllegalStateException e) { caught += e.getMessage().length(); }
    all.append(caught);
    List<String> words = new ArrayList<>();
    for (int i = 0; i < 20000; ++i) words.add("w" + Integer.toString(i * 7919 % 10007, 36));
    Collections.sort(words);
    Map<String, Integer> map = new TreeMap<>();
    for (String word : words) map.merge(word, word.length(), Integer::sum);
    all.append(map);
    CRC32 crc = new CRC32();
    Deflater deflater = new Deflater();
    deflater.setInput(all.toString().getBytes());
    deflater.finish();
    byte[] buffer = new byte[1 << 16];
    while (!deflater.finished()) crc.update(buffer, 0, deflater.deflate(buffer));
    deflater.end();
    all.append(crc.getValue());
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(all.toString().getBytes());
    return HexFormat.of().formatHex(digest);
  }

  public static void main(String[] args) throws Exception {
    String first = round();
    System.out.println(first);
    for (int n = 1; n < 3 || !Files.exists(Path.of(args[0])); ++n)
      if (!round().equals(first)) { System.out.println("MISMATCH in round " + n); System.exit(1); }
    System.out.println("done");
  }
}
