// The names of what is built are fixed: the server embeds each file by its name
// (crates/api/src/http/page.rs), and says by a tag when one of them has changed.
import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: { app: 'index.html', microphone: 'src/microphone.ts' },
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/app[extname]',
      },
    },
  },
});
