import { adapterInputs } from "./adapter.ts"

/** Codex and its adapter. Codex starts the program in a package for this processor. */
export const codex = adapterInputs({
  agent: "codex",
  program: "@openai/codex",
  main: (arch) => `@openai/codex-linux-${arch}/vendor/${VENDOR[arch]}/bin/codex`,
})

const VENDOR = { x64: "x86_64-unknown-linux-musl", arm64: "aarch64-unknown-linux-musl" }
