/** The user that a process runs as. */
export interface User {
  readonly uid: number
  readonly gid: number
}
