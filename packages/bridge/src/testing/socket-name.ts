/** A short file name: the path of a socket has room for about a hundred bytes. */
export const socketName = (attack: string): string => attack.replaceAll(/\W+/g, "-")
