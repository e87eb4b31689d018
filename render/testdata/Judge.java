import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;

/** Prints what java.util.Properties loads from each line of input, a text in base64. */
class Judge {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Properties loaded = new Properties();
            try {
                loaded.load(new StringReader(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
            } catch (IllegalArgumentException malformed) {
                System.out.println("refused");
                continue;
            }
            StringBuilder out = new StringBuilder("loaded");
            for (String key : loaded.stringPropertyNames()) {
                out.append(' ').append(encode(key)).append(':').append(encode(loaded.getProperty(key)));
            }
            System.out.println(out);
        }
    }

    private static String encode(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
