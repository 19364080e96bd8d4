/** Types of the library's native calls, which it does not publish. Its version is pinned. */
declare module "@lydell/node-pty/requireBinary.js" {
  export function requireBinary(file: "pty.node"): {
    open(cols: number, rows: number): { master: number; slave: number; pty: string }
    resize(fd: number, cols: number, rows: number): void
  }
}
