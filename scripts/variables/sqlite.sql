-- The work of `check-variables sqlite`.
create table person(id integer primary key, name text not null, age int default 30, score real);
create index by_name on person(name);
create table place(id integer primary key, owner references person(id), label text collate nocase unique);
begin;
insert into person(name, age, score) values ('Ann', 41, 1.5), ('Bob', 25, -2e9), ('Cid', null, 0.1),
  ('Dora', 77, null);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60)
  insert into place(owner, label) select 1 + i % 4, 'place ' || i from n;
savepoint one; delete from place where id % 7 = 3; rollback to one; release one;
commit;
create trigger aged after update of age on person begin
  update place set label = label || '+' where owner = new.id;
end;
create view old as select name, age from person where age > 30;
update person set age = age + 1 where name like 'a%' or name glob 'B*';
select p.name, count(*), group_concat(substr(l.label, 7), '/')
  from person p left join place l on l.owner = p.id
  group by p.name having count(*) > 1 order by 2 desc, 1;
select * from old union select upper(name), abs(score) from person except select 'BOB', 3 order by 1 limit 3;
select name, row_number() over (order by age), sum(age) over (partition by age > 30) from person;
select json_extract('{"a":[1,2,{"b":"c"}]}', '$.a[2].b'), printf('%05.2f|%-6s|%x', 3.14159, 'ab', 255),
  date('2020-02-29', '+1 year');
explain query plan select * from person where id in (select owner from place where label = 'place 5');
select case when exists(select 1 from place where owner = 9) then 'yes' else coalesce(null, 'no') end,
  cast('12abc' as int), x'0aff';
alter table person add column note text; analyze; pragma integrity_check; reindex; vacuum;
drop index by_name; delete from place; select no_such_column from person;
select 'done';
