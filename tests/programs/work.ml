(* Allocation, deep recursion, exceptions: the collector walks the stack by its return addresses. *)
type tree = Leaf | Node of tree * tree
let rec tree depth = if depth = 0 then Leaf else Node (tree (depth - 1), tree (depth - 1))
let rec count = function Leaf -> 0 | Node (l, r) -> 1 + count l + count r
exception Bottom of string
let rec deep n = if n = 0 then raise (Bottom "bottom") else 1 + deep (n - 1)
let rec build n = if n = 0 then [] else string_of_int (n * 7919 mod 10007) :: build (n - 1)

let round () =
  let b = Buffer.create 1000 in
  for _ = 1 to 5 do Buffer.add_string b (string_of_int (count (tree 14))) done;
  for i = 0 to 300 do
    try ignore (deep i) with Bottom s -> Buffer.add_string b (s ^ string_of_int i)
  done;
  let words = List.sort compare (build 20000) in
  let table = Hashtbl.create 16 in
  List.iter (fun w -> Hashtbl.replace table w (String.length w +
    try Hashtbl.find table w with Not_found -> 0)) words;
  Buffer.add_string b (string_of_int (Hashtbl.fold (fun _ n sum -> n + sum) table 0));
  Buffer.add_string b (String.concat " " words);
  Gc.compact ();
  Digest.to_hex (Digest.string (Buffer.contents b))

let () =
  let first = round () in
  print_endline first;
  let n = ref 1 in
  while !n < 3 || not (Sys.file_exists Sys.argv.(1)) do
    if round () <> first then (Printf.printf "MISMATCH in round %d\n" !n; exit 1);
    incr n
  done;
  print_endline "done"
